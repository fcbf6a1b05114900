"""What a page needs so that everybody can use it, looked up in the page itself: names, contrast, order, room."""

# Every control has a name, every picture a text, headings begin with one of the first level, nothing jumps the order.
NAMES = r"""
const problems = [];
const name = (e) => (e.getAttribute('aria-label') || (e.getAttribute('aria-labelledby') && document.getElementById(e.getAttribute('aria-labelledby'))?.textContent)
  || [...(e.labels ?? [])].map((l) => l.textContent).join(' ') || (['INPUT', 'SELECT'].includes(e.tagName) ? '' : e.textContent) || '').trim();
const seen = (e) => e.checkVisibility();
for (const e of document.querySelectorAll('a[href], button, input, select, textarea, summary, [role=grid], dialog')) {
  if (seen(e) && !name(e)) problems.push('no name: ' + e.outerHTML.slice(0, 120));
  if (e.tabIndex > 0) problems.push('jumps the order: ' + e.outerHTML.slice(0, 120));
}
for (const e of document.querySelectorAll('img, svg')) {
  if (seen(e) && !e.closest('[aria-hidden=true]') && !name(e)) problems.push('no text: ' + e.outerHTML.slice(0, 120));
}
for (const e of document.querySelectorAll('[onclick], div[tabindex], span[tabindex]')) {
  if (!e.getAttribute('role')) problems.push('no role: ' + e.outerHTML.slice(0, 120));
}
const first = document.querySelectorAll('h1');
if (first.length !== 1) problems.push(first.length + ' headings of the first level');
let level = 0;
for (const e of document.querySelectorAll('h1, h2, h3, h4')) {
  const now = Number(e.tagName[1]);
  if (level > 0 && now > level + 2) problems.push('a level is missed before ' + e.textContent);
  level = now;
}
if (!document.documentElement.lang) problems.push('no language');
if (!document.title) problems.push('no title');
const ids = [...document.querySelectorAll('[id]')].map((e) => e.id);
if (new Set(ids).size !== ids.length) problems.push('an id twice');
return problems;
"""

# The contrast of each text with what is behind it (WCAG 2.2, 1.4.3: 4.5 to 1, and 3 to 1 for large text).
CONTRAST = r"""
const pixel = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
pixel.canvas.width = pixel.canvas.height = 1;
const read = (colour) => { pixel.clearRect(0, 0, 1, 1); pixel.fillStyle = colour; pixel.fillRect(0, 0, 1, 1); const d = pixel.getImageData(0, 0, 1, 1).data; return [d[0], d[1], d[2], d[3] / 255]; };
const over = (top, under) => [0, 1, 2].map((i) => top[i] * top[3] + under[i] * (1 - top[3])).concat(1);
const light = (c) => { const [r, g, b] = c.slice(0, 3).map((v) => { v /= 255; return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; }); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
const behind = (e) => { let layers = []; for (let at = e; at; at = at.parentElement) { const c = read(getComputedStyle(at).backgroundColor); layers.push(c); if (c[3] === 1) break; } return layers.reverse().reduce((under, top) => over(top, under), [255, 255, 255, 1]); };
const problems = new Map(), walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
let looked = 0;
while (walker.nextNode()) {
  const e = walker.currentNode.parentElement;
  if (!walker.currentNode.data.trim() || ['SCRIPT', 'STYLE', 'NOSCRIPT'].includes(e.tagName) || !e.checkVisibility({ opacityProperty: true, visibilityProperty: true }) || e.closest('.hidden, .skip, :disabled')) continue;
  const style = getComputedStyle(e), paper = behind(e), ink = over(read(style.color), paper);
  const [a, b] = [light(ink), light(paper)].sort((x, y) => y - x), ratio = (a + 0.05) / (b + 0.05);
  const isLarge = parseFloat(style.fontSize) >= 24 || (parseFloat(style.fontSize) >= 18.66 && Number(style.fontWeight) >= 700);
  looked += 1;
  if (ratio < (isLarge ? 3 : 4.5)) problems.set(`${e.tagName}.${e.className}`, `${ratio.toFixed(2)}: ${walker.currentNode.data.trim().slice(0, 40)}`);
}
return [looked, [...problems]];
"""


def check_names(browser, page):
    problems = browser.script(NAMES)
    assert not problems, (page, problems)


def check_contrast(browser, page):
    looked, problems = browser.script(CONTRAST)
    assert looked > 5 and not problems, (page, looked, problems)


def check_room(browser, page, width):
    """Nothing sticks out of the page sideways; what is wide scrolls within itself."""
    wide = browser.script("return document.documentElement.scrollWidth")
    assert wide <= width, (page, width, wide, browser.script(
        "return [...document.querySelectorAll('main *')].filter((e) => e.getBoundingClientRect().right > innerWidth + 1 "
        "&& !e.closest('.scroll, .viewport, .tabs, .classes, .place')).map((e) => e.outerHTML.slice(0, 100)).slice(0, 3)"))


def check_keyboard(browser, page):
    """The tabulator key reaches every control once around, in the order in which they stand."""
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.keys import Keys
    controls = browser.script(
        "window.order = [...document.querySelectorAll('a[href], button:not(:disabled), input:not(:disabled), select, summary, [tabindex=\"0\"]')]"
        ".filter((e) => e.checkVisibility() && !e.closest('details:not([open]) > :not(summary)'));"
        "document.activeElement.blur(); window.getSelection().removeAllRanges(); return window.order.length")
    reached, places = set(), []
    browser.script("window.order[0].focus()")
    for _ in range(min(controls, 30)):
        place = browser.script("return window.order.indexOf(document.activeElement)")
        if place >= 0:
            reached.add(place)
            places.append(place)
        ActionChains(browser.driver, duration=0).send_keys(Keys.TAB).perform()
    assert places == sorted(places) and len(reached) >= min(controls, 30) - 3, (page, controls, places)
