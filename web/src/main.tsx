import { render } from "preact";
import "./style.css";
import { App } from "./app";
import { section } from "./decode";
import { followDocument } from "./live";
import type { Page } from "./payload";
import { followHash } from "./state";

const root = document.getElementById("app")!;
section<Page>("page").then(
  (page) => {
    followHash();
    render(<App page={page} />, root);
    followDocument();
  },
  (error: unknown) => {
    root.textContent = `This report cannot be shown: ${String(error)}`;
  },
);
