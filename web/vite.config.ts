/** Builds the page into one file, with its scripts and styles inline and a policy that allows only these. */

import { createHash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { defineConfig, type Plugin } from "vite";

const digest = (text: string) => `'sha256-${createHash("sha256").update(text).digest("base64")}'`;

const CONFIG = ["index.html", "package-lock.json", "package.json", "tsconfig.json", "vite.config.ts"];

/** A digest of all sources: `tests/contracts/test_web_build.py` compares that of the built page with theirs. */
function sourceDigest(): string {
  const inside = readdirSync("src", { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => `${entry.parentPath}/${entry.name}`.replaceAll("\\", "/"));
  const all = createHash("sha256");
  for (const path of [...CONFIG, ...inside].sort()) {
    all.update(`${createHash("sha256").update(readFileSync(path)).digest("hex")}  ${path}\n`);
  }
  return all.digest("hex");
}

function oneFile(): Plugin {
  return {
    name: "one-file",
    enforce: "post",
    generateBundle(_, bundle) {
      const files = Object.values(bundle);
      const html = files.find((file) => file.fileName.endsWith(".html"));
      if (html?.type !== "asset") throw new Error("no page was built");
      const scripts = files.filter((file) => file.type === "chunk").map((file) => file.code.trim());
      const styles = files.flatMap((file) =>
        file.type === "asset" && file.fileName.endsWith(".css") ? [String(file.source).trim()] : [],
      );
      if (scripts.length !== 1) throw new Error(`expected one script, got ${scripts.length}`);
      const script = scripts[0]!.replaceAll("</script", "<\\/script");
      const style = styles.join("\n");
      const inline = Array.from(String(html.source).matchAll(/<script>(.*?)<\/script>/gs), (match) => match[1]!);
      // A page opened from a file makes no request: `connect-src` stays closed unless `assay serve` opens it.
      const policy = [
        "default-src 'none'",
        `script-src ${[script, ...inline].map(digest).join(" ")}`,
        `style-src ${digest(style)}`,
        "img-src data: blob:",
        "base-uri 'none'",
        "form-action 'none'",
      ].join("; ");
      html.source = String(html.source)
        .replace(/\s*<script type="module"[^>]*><\/script>/, "")
        .replace(/\s*<link rel="stylesheet"[^>]*>/, "")
        .replace(
          "<!-- policy -->",
          `<meta http-equiv="Content-Security-Policy" content="${policy}">\n` +
            `    <meta name="assay-source" content="${sourceDigest()}">`,
        )
        .replace("</head>", () => `<style>${style}</style>\n  </head>`)
        .replace("</body>", () => `<script type="module">${script}</script>\n  </body>`);
      for (const file of files) if (file !== html) delete bundle[file.fileName];
      html.fileName = "report.html";
    },
  };
}

export default defineConfig({
  base: "./",
  plugins: [oneFile()],
  build: {
    outDir: "../src/assay/views/html/static",
    emptyOutDir: true,
    target: "es2022",
    cssTarget: ["chrome123", "firefox120", "safari17.5"], // the first with light-dark()
    modulePreload: false,
    assetsInlineLimit: 1 << 20,
    cssCodeSplit: false,
    reportCompressedSize: false,
  },
});
