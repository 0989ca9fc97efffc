// A button on every block of code that copies it; of a Python session only what is typed. Sentences in the
// output of an example are broken at the width of the page, where tables keep their lines.

function typed(text) {
  const lines = text.split("\n");
  if (!lines.some((line) => line.startsWith(">>> "))) return text;
  const kept = [];
  let typing = false; // "..." continues a line that was typed; elsewhere it is output
  for (const line of lines) {
    const prompt = line.slice(0, 4).trimEnd();
    typing = prompt === ">>>" || (typing && prompt === "...");
    if (typing) kept.push(line.slice(4));
  }
  return kept.join("\n") + "\n";
}

function addButton(block) {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "copy";
  button.textContent = "Copy";
  button.addEventListener("click", async () => {
    let said = "Copied";
    try {
      await navigator.clipboard.writeText(typed(block.querySelector("pre").textContent));
    } catch {
      said = "Not allowed";
    }
    button.textContent = said;
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  });
  block.append(button);
}

const OUTPUT = ".sphx-glr-script-out";
const WIDEST_TABLE = 80; // letters

function breakSentences(block) {
  const lines = block.textContent.split("\n").map((line) => {
    const span = document.createElement("span");
    span.textContent = line;
    if (line.length > WIDEST_TABLE) span.className = "sentence";
    return span;
  });
  block.replaceChildren(...lines.flatMap((line, i) => (i ? ["\n", line] : [line])));
}

if (typeof document !== "undefined") {
  document.addEventListener("DOMContentLoaded", () => {
    document.querySelectorAll(`${OUTPUT} pre`).forEach(breakSentences);
    const blocks = [...document.querySelectorAll("div.highlight")].filter((block) => !block.closest(OUTPUT));
    if (navigator.clipboard) blocks.forEach(addButton);
  });
}
