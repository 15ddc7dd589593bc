// Text whose color is too near to that behind it, and elements without a name.
const parts = color => color.match(/[\d.]+/g).map(Number);
const light = ([r, g, b]) => [r, g, b].map(v => (v /= 255) <= 0.04045 ? v / 12.92
  : ((v + 0.055) / 1.055) ** 2.4).reduce((sum, v, at) => sum + v * [0.2126, 0.7152, 0.0722][at], 0);
const behind = element => {
  for (; element; element = element.parentElement) {
    const color = parts(getComputedStyle(element).backgroundColor);
    if (color.length === 3 || color[3] > 0) return color;
  }
  return matchMedia('(prefers-color-scheme:dark)').matches ? [0, 0, 0] : [255, 255, 255];
};
const wrong = [];
for (const element of document.querySelectorAll('body *:not(svg, svg *)')) {
  const own = [...element.childNodes].some(it => it.nodeType === 3 && it.data.trim());
  if (!own || !element.getClientRects().length) continue;
  const [a, b] = [light(parts(getComputedStyle(element).color)), light(behind(element))];
  const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  if (ratio < 4.5) wrong.push(`${element.tagName}.${element.className} ${ratio.toFixed(2)}: ${element.textContent.slice(0, 40)}`);
}
for (const element of document.querySelectorAll('input, select'))
  if (!element.labels.length) wrong.push(`no label: ${element.id}`);
for (const element of document.querySelectorAll('a, button'))
  if (!(element.textContent.trim() || element.getAttribute('aria-label'))) wrong.push(`no name: ${element.outerHTML}`);
if (document.querySelectorAll('h1').length !== 1) wrong.push('not one h1');
let level = 1;
for (const heading of document.querySelectorAll('h1, h2, h3, h4, h5, h6')) {
  const next = Number(heading.tagName[1]);
  if (next > level + 1) wrong.push(`${heading.tagName} follows h${level}`);
  level = next;
}
return wrong;
