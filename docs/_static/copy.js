// A button on every block of code that copies it; of a Python session only what is typed.

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

if (typeof document !== "undefined") {
  document.addEventListener("DOMContentLoaded", () => {
    if (navigator.clipboard) document.querySelectorAll("div.highlight").forEach(addButton);
  });
}
