"use strict";
(() => {
  const form = document.getElementById("filter");
  const words = document.getElementById("words");
  const none = document.getElementById("none");
  const boxes = [...form.querySelectorAll("input[type=checkbox]")];
  const articles = [...document.querySelectorAll("article")].map((element) => ({
    element,
    states: element.dataset.state.split(" "),
    text: element.textContent.toLowerCase(),
  }));
  const apply = () => {
    const off = boxes.filter((box) => !box.checked).map((box) => box.value);
    const wanted = words.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const { element, states, text } of articles) {
      const show =
        states.some((state) => !off.includes(state)) && wanted.every((word) => text.includes(word));
      element.hidden = !show;
      shown += show ? 1 : 0;
    }
    none.hidden = shown > 0;
  };
  form.addEventListener("input", apply);
  form.addEventListener("submit", (event) => event.preventDefault());
  apply();
})();
