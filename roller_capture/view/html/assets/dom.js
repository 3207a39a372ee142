// Elements are made here and nowhere else, and text only ever becomes text: the page's policy forbids markup.

const el = (tag, className, ...children) => {
  const node = document.createElement(tag);
  if (className) node.className = className;
  append(node, children);
  return node;
};

const append = (node, children) => {
  for (const child of children.flat(Infinity)) {
    if (child !== null && child !== undefined && child !== false && child !== "") node.append(child);
  }
  return node;
};

const byId = (id) => document.getElementById(id);

const fill = (node, ...children) => {
  node.replaceChildren();
  return append(node, children);
};

const titled = (node, text) => {
  node.title = shown(text);
  return node;
};

const button = (className, label, action) => {
  const node = el("button", className, label);
  node.type = "button";
  node.addEventListener("click", (event) => {
    event.stopPropagation();
    action(event);
  });
  return node;
};

// A heading that opens and closes; what stands below is made when it is first opened.
const folding = (className, heading, make, isOpen = false) => {
  const node = el("section", `fold ${className}`);
  const body = el("div", "fold-body");
  let made = false;
  const toggle = (open) => {
    node.classList.toggle("open", open);
    head.setAttribute("aria-expanded", String(open));
    if (open && !made) {
      made = true;
      node.ready = Promise.resolve(make(body)).catch((error) => {
        body.append(el("p", "bad", `This cannot be shown: ${shown(String(error.message || error))}`));
      });
    }
    return node.ready;
  };
  const head = button("fold-head", [el("span", "twist"), heading], () => toggle(!node.classList.contains("open")));
  head.setAttribute("aria-expanded", "false");
  node.append(head, body);
  node.open = () => toggle(true);
  if (isOpen) toggle(true);
  return node;
};
