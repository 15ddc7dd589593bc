// Edges that are not in one line, and numbers that may be broken.
const wrong = [];
const left = at => Math.round(document.querySelector(at).getBoundingClientRect().left);
const edges = ['.brand', 'main > *', 'footer p'].map(left);
if (new Set(edges).size > 1) wrong.push(`left edges ${edges}`);
for (const it of document.querySelectorAll('.number, thead th'))
  if (innerWidth > 640 && getComputedStyle(it).whiteSpace !== 'nowrap') wrong.push(it.outerHTML);
return wrong;
