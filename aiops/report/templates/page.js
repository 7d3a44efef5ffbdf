"use strict";
(() => {
  const root = document.documentElement;
  root.classList.add("js");

  const copied = (button) => {
    button.textContent = "copied";
    setTimeout(() => { button.textContent = "copy"; }, 1500);
  };
  const copyBySelection = (code) => {
    const range = document.createRange();
    range.selectNodeContents(code);
    const selection = getSelection();
    selection.removeAllRanges();
    selection.addRange(range);
    return document.execCommand("copy");
  };
  for (const button of document.querySelectorAll("button.copy")) {
    button.addEventListener("click", () => {
      const code = button.parentElement.querySelector("code");
      const fallback = () => { if (copyBySelection(code)) copied(button); };
      if (!navigator.clipboard) { fallback(); return; }
      navigator.clipboard.writeText(code.textContent).then(() => copied(button), fallback);
    });
  }

  const open = () => {
    const target = document.getElementById(location.hash.slice(1));
    for (let at = target; at; at = at.parentElement) if (at.tagName === "DETAILS") at.open = true;
    if (target) target.scrollIntoView({ block: "center" });
  };
  addEventListener("hashchange", open);
  open();

  let closed = [];
  addEventListener("beforeprint", () => {
    closed = [...document.querySelectorAll("details:not([open], .sources)")];
    for (const one of closed) one.open = true;
  });
  addEventListener("afterprint", () => { for (const one of closed) one.open = false; });

  const dark = matchMedia("(prefers-color-scheme: dark)");
  document.getElementById("theme").addEventListener("click", () => {
    const now = root.dataset.theme || (dark.matches ? "dark" : "light");
    root.dataset.theme = now === "dark" ? "light" : "dark";
  });
})();
