// Lists the usability problems of a page, as sentences. Run as an expression.
(() => {
	const found = [];
	const report = (element, what) => found.push(`${what}: ${element.cloneNode(false).outerHTML.slice(0, 200)}`);
	const all = (selector) => [...document.querySelectorAll(selector)];
	const shown = (element) => element.checkVisibility({ visibilityProperty: true, opacityProperty: true });
	const exposed = (element) => shown(element) && !element.closest("[aria-hidden=true]");

	// Names for screen readers.
	if (!document.documentElement.lang) found.push("the page has no language");
	if (!document.title.trim()) found.push("the page has no title");
	if (all("main").length !== 1) found.push(`the page has ${all("main").length} main parts`);
	const idrefs = (element, attribute) => (element.getAttribute(attribute) ?? "").split(/\s+/).filter(Boolean);
	const labelled = (element) =>
		idrefs(element, "aria-labelledby").map((id) => document.getElementById(id)?.textContent ?? "").join(" ").trim() ||
		element.getAttribute("aria-label")?.trim();
	for (const field of all("input:not([type=hidden], [type=submit], [type=button], [type=reset]), select, textarea")) {
		const label = [...(field.labels ?? [])].map((l) => l.textContent).join(" ").trim();
		if (shown(field) && !label && !labelled(field)) report(field, "a field has no label");
	}
	for (const thing of all("a[href], button, summary")) {
		const name = labelled(thing) || thing.textContent.trim() || thing.querySelector("img[alt], [role=img][aria-label], svg > title");
		if (exposed(thing) && !name) report(thing, "a link or a button has no name");
	}
	for (const picture of all("img:not([alt])")) report(picture, "an image has no alternative");
	for (const drawing of all("svg:not([aria-hidden=true])")) {
		if (exposed(drawing) && !labelled(drawing) && !drawing.querySelector("title")) report(drawing, "a drawing has no name and is not hidden");
	}
	for (const table of all("table")) if (shown(table) && !table.querySelector("th")) report(table, "a table has no headings");

	// Headings form a table of contents.
	const headings = all("h1, h2, h3, h4, h5, h6").filter(exposed);
	if (headings.filter((h) => h.tagName === "H1").length !== 1) found.push("the page does not have one h1");
	let level = 0;
	for (const heading of headings) {
		const now = Number(heading.tagName[1]);
		if (now > level + 1) report(heading, `a heading of level ${now} follows one of level ${level}`);
		level = now;
	}

	// References must resolve to exactly one element.
	const ids = new Map();
	for (const element of all("[id]")) ids.set(element.id, (ids.get(element.id) ?? 0) + 1);
	for (const [id, times] of ids) if (times > 1) found.push(`the id ${id} exists ${times} times`);
	for (const attribute of ["aria-labelledby", "aria-describedby", "aria-controls", "for"]) {
		for (const element of all(`[${attribute}]`)) {
			for (const id of idrefs(element, attribute)) if (!ids.has(id)) report(element, `${attribute} names ${id}, which does not exist`);
		}
	}

	// Contrast, as WCAG 2 computes it. A canvas parses every color syntax.
	const canvas = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
	const known = new Map();
	const parse = (color) => {
		if (!known.has(color)) {
			canvas.clearRect(0, 0, 1, 1);
			canvas.fillStyle = color;
			canvas.fillRect(0, 0, 1, 1);
			const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
			known.set(color, [r, g, b, a / 255]);
		}
		return known.get(color);
	};
	const over = (top, bottom) => [0, 1, 2].map((i) => top[i] * top[3] + bottom[i] * (1 - top[3])).concat(1);
	const luminance = (color) => {
		const [r, g, b] = color.map((c) => (c / 255 <= 0.04045 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4));
		return 0.2126 * r + 0.7152 * g + 0.0722 * b;
	};
	const background = (element) => {
		const layers = [];
		for (let e = element; e; e = e.parentElement) {
			const style = getComputedStyle(e);
			if (style.backgroundImage !== "none") return null; // the contrast on an image cannot be computed
			layers.push(parse(style.backgroundColor));
			if (layers.at(-1)[3] === 1) break;
		}
		const canvasColor = matchMedia("(prefers-color-scheme: dark)").matches && getComputedStyle(document.documentElement).colorScheme.includes("dark") ? [18, 18, 18, 1] : [255, 255, 255, 1];
		return layers.reverse().reduce((below, layer) => over(layer, below), canvasColor);
	};
	const opacity = (element) => {
		let product = 1;
		for (let e = element; e; e = e.parentElement) product *= Number(getComputedStyle(e).opacity);
		return product;
	};
	const seen = new Set();
	const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
	for (let text = texts.nextNode(); text; text = texts.nextNode()) {
		const element = text.parentElement;
		if (seen.has(element) || !text.data.trim() || !exposed(element) || element.closest(":disabled, [aria-disabled=true], option, svg, script, style, template")) continue;
		seen.add(element);
		const style = getComputedStyle(element);
		const box = element.getBoundingClientRect();
		if (box.width <= 1 || box.height <= 1) continue; // for screen readers only
		const below = background(element);
		if (!below) continue;
		const [r, g, b, a] = parse(style.color);
		const ink = over([r, g, b, a * opacity(element)], below);
		const [dim, bright] = [luminance(ink), luminance(below)].sort((x, y) => x - y);
		const ratio = (bright + 0.05) / (dim + 0.05);
		const size = parseFloat(style.fontSize);
		const large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
		if (ratio < (large ? 3 : 4.5)) report(element, `contrast ${ratio.toFixed(2)} of "${text.data.trim().slice(0, 40)}"`);
	}
	return found;
})();
