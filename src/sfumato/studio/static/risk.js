// The page Risk: a group of people on the heat map and its line in words belong together, and long
// tables show the rest of their rows when asked.

import { enhance } from "./studio.js";

enhance(".heat-group", (group) => {
  const line = document.getElementById(`group-${group.dataset.group}`);
  const mark = (on) => () => line?.classList.toggle("marked", on);
  for (const name of ["focus", "mouseenter"]) group.addEventListener(name, mark(true));
  for (const name of ["blur", "mouseleave"]) group.addEventListener(name, mark(false));
  for (const [name, on] of [["mouseenter", true], ["mouseleave", false]]) {
    line?.addEventListener(name, () => group.classList.toggle("marked", on));
  }
  group.addEventListener("click", () => line?.scrollIntoView({ block: "nearest", behavior: "smooth" }));
});

enhance("[data-reveal]", (button) => {
  button.addEventListener("click", () => {
    const rest = document.getElementById(button.dataset.reveal);
    rest.hidden = false;
    button.remove();
  });
});
