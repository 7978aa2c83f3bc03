package dashboard

import (
	"html/template"
)

// icons are 16 by 16 icons. They always accompany text.
var icons = map[string]template.HTML{
	"good":    `<path d="M3.5 8.5l3 3 6-7"/>`,
	"bad":     `<path d="M4.5 4.5l7 7m0-7l-7 7"/>`,
	"warn":    `<path d="M8 2.5l6 11H2zM8 7v3m0 1.6v.4"/>`,
	"wait":    `<circle cx="8" cy="8" r="5.5"/><path d="M8 5v3l2 1.5"/>`,
	"neutral": `<path d="M4 8h8"/>`,
	"pause":   `<path d="M5.5 4v8m5-8v8"/>`,
	"play":    `<path d="M5 3.5l7 4.5-7 4.5z"/>`,
	"again":   `<path d="M13 8a5 5 0 1 1-1.6-3.7M13 2.5v3h-3"/>`,
	"undo":    `<path d="M3 8a5 5 0 1 0 1.6-3.7M3 2.5v3h3"/>`,
	"plus":    `<path d="M8 3v10M3 8h10"/>`,
	"trash":   `<path d="M3 4.5h10M6.5 4V2.5h3V4m-5 .5l.6 9h5.8l.6-9"/>`,
	"edit":    `<path d="M3 13l.6-2.8L10.8 3l2.2 2.2-7.2 7.2z"/>`,
	"search":  `<circle cx="7" cy="7" r="4.5"/><path d="M10.5 10.5L14 14"/>`,
	"out":     `<path d="M6 3H3v10h3m3-8l3 3-3 3m3-3H6"/>`,
	"keys":    `<rect x="1.5" y="4" width="13" height="8" rx="1.5"/><path d="M4 6.5h.01M7 6.5h.01M10 6.5h.01M5 9.5h6"/>`,
	"theme":   `<circle cx="8" cy="8" r="5.5"/><path d="M8 2.5v11a5.5 5.5 0 0 0 0-11z" fill="currentColor"/>`,
}

// iconPath renders an icon in a picture that has its own size and colors.
func iconPath(name string) template.HTML { return icons[name] }

// icon renders an icon.
func icon(name string) template.HTML {
	return `<svg class="icon" viewBox="0 0 16 16" fill="none" stroke="currentColor" stroke-width="1.6" stroke-linecap="round" stroke-linejoin="round" aria-hidden="true">` +
		icons[name] + `</svg>`
}
