// Protect: points of the map become the plan, cards are dragged, and a form that cannot be
// saved stays open with what was typed.
import { enhance } from "./studio.js";

enhance("[data-submit]", (mark) => {
  const choose = () => {
    const form = document.getElementById(mark.dataset.submit);
    form.querySelector("[name=candidate]").value = mark.dataset.value;
    form.requestSubmit();
  };
  mark.addEventListener("click", choose);
  mark.addEventListener("keydown", (event) => {
    if (event.key === "Enter" || event.key === " ") { event.preventDefault(); choose(); }
  });
});

enhance("[data-sortable]", (list) => {
  let taken;
  const over = (event) => event.target.closest?.("[data-position]");
  list.addEventListener("dragstart", (event) => {
    taken = over(event);
    taken?.classList.add("taken");
    if (event.dataTransfer) event.dataTransfer.effectAllowed = "move";
  });
  list.addEventListener("dragend", () => { taken?.classList.remove("taken"); taken = undefined; });
  list.addEventListener("dragover", (event) => {
    const card = over(event);
    if (!taken || !card) return;
    event.preventDefault();
    for (const other of list.children) other.classList.toggle("target", other === card && card !== taken);
  });
  list.addEventListener("drop", (event) => {
    const card = over(event);
    if (!taken || !card || card === taken) return;
    event.preventDefault();
    const form = document.getElementById(list.dataset.sortable);
    form.querySelector("[name=position]").value = taken.dataset.position;
    form.querySelector("[name=to]").value = card.dataset.position;
    form.requestSubmit();
  });
});

// Asked before it is sent: what is refused would close the dialog, and all that was typed be lost.
document.addEventListener("submit", async (event) => {
  const form = event.target;
  if (!form.matches("form[data-check][data-hold]") || form.dataset.sure !== undefined) return;
  event.preventDefault();
  event.stopImmediatePropagation();
  const button = event.submitter, fields = new URLSearchParams(new FormData(form));
  const answer = await fetch(form.dataset.check, { method: "POST", body: fields });
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  const bad = page.querySelector("[data-tone=bad]");
  form.querySelector("[data-verdict]").replaceChildren(...page.body.childNodes);
  if (bad) return form.querySelector("[data-verdict]").scrollIntoView({ block: "nearest" });
  form.dataset.sure = "";
  form.requestSubmit(button);
}, true);
