/** Sentences with code in backticks, and commands that can be copied. */

import { useState } from "preact/hooks";
import "./prose.css";

/** Sentences in which `code` is monospaced, and a command of Assay can be copied unless `still`. */
export function Prose({ text, still }: { text: string; still?: boolean }) {
  const code = (part: string) =>
    part.startsWith("assay ") && !still ? <Command text={part} /> : <code>{part}</code>;
  return <>{text.split("`").map((part, at) => (at % 2 ? code(part) : part))}</>;
}

/** A command with a button that copies it. */
export function Command({ text }: { text: string }) {
  return (
    <span class="command">
      <code>
        {text.split(" ").map((word, at) => (
          <>
            {at > 0 && " "}
            <span>{word}</span>
          </>
        ))}
      </code>
      <CopyButton text={text} label={`Copy ${text}`} />
    </span>
  );
}

/** A button that copies a text, and says so. */
export function CopyButton({ text, label }: { text: string; label: string }) {
  const [copied, setCopied] = useState(false);
  const copy = async () => {
    setCopied(await toClipboard(text));
    setTimeout(() => setCopied(false), 1600);
  };
  return (
    <button type="button" class="copy" aria-label={label} onClick={copy}>
      <svg viewBox="0 0 16 16" aria-hidden="true">
        {copied ? <path d="m3 8.5 3.2 3.2L13 4.8" /> : <path d="M5.5 5.5h8v8h-8zM10.5 5.5v-3h-8v8h3" />}
      </svg>
      <span role="status">{copied && "Copied"}</span>
    </button>
  );
}

/** Copies a text; a page in a sandboxed frame or an old browser has no clipboard, but may have the command. */
async function toClipboard(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const area = document.createElement("textarea");
    area.value = text;
    document.body.append(area);
    area.select();
    const copied = document.execCommand("copy");
    area.remove();
    return copied;
  }
}
