package browser

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/dom"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// Actions find elements by roles and accessible names, as computed by Chromium for screen
// readers. Elements without a name cannot be tested.

// clickable and fillable are lists of roles.
var (
	clickable = []string{"button", "link", "checkbox", "radio", "tab", "menuitem", "switch", "DisclosureTriangle", "summary"}
	fillable  = []string{"textbox", "searchbox", "spinbutton", "combobox", "listbox", "Date", "DateTime", "InputTime"}
)

// click clicks the element with a name.
func (p *page) click(name string) {
	p.t.Helper()
	p.clickIn("body", name)
}

// clickIn clicks the element with a name inside of a selector.
func (p *page) clickIn(selector, name string) {
	p.t.Helper()
	p.until("click "+name, func() error {
		return p.with(func(ctx context.Context, target *chromedp.Target) error {
			node, err := find(ctx, target, selector, name, clickable)
			if err != nil {
				return err
			}
			return clickOn(ctx, target, node)
		})
	})
}

// follow clicks the link to a path.
func (p *page) follow(path string) {
	p.t.Helper()
	p.until("follow a link to "+path, func() error {
		return p.with(func(ctx context.Context, target *chromedp.Target) error {
			node, err := query(ctx, target, "a[href="+quote(path)+"]")
			if err != nil {
				return err
			}
			return clickOn(ctx, target, node)
		})
	})
}

// whenLoaded is an expression for an element, or null while the page loads: before, its scripts do not run.
func whenLoaded(expression string) string {
	return `document.readyState === "complete" ? ` + expression + " : null"
}

// query returns the first visible element of a selector.
func query(ctx context.Context, target *chromedp.Target, selector string) (cdp.BackendNodeID, error) {
	found, err := cdp.Call(ctx, target, runtime.Evaluate, runtime.EvaluateParams{
		Expression: whenLoaded("[...document.querySelectorAll(" + quote(selector) + ")].find(e => e.checkVisibility())"),
	})
	if err != nil {
		return 0, err
	}
	if found.Result == nil || found.Result.ObjectID == "" {
		return 0, fmt.Errorf("nothing that can be seen is %s, or the page loads", selector)
	}
	described, err := cdp.Call(ctx, target, dom.DescribeNode, dom.DescribeNodeParams{ObjectID: found.Result.ObjectID})
	if err != nil {
		return 0, err
	}
	return described.Node.BackendNodeID, nil
}

// fill sets the field with a label, or selects an option.
func (p *page) fill(label, value string) {
	p.t.Helper()
	p.fillIn("body", label, value)
}

// fillIn fills a field inside of a selector.
func (p *page) fillIn(selector, label, value string) {
	p.t.Helper()
	p.until("fill in "+label, func() error {
		return p.with(func(ctx context.Context, target *chromedp.Target) error {
			node, err := find(ctx, target, selector, label, fillable)
			if err != nil {
				return err
			}
			return write(ctx, target, node, value)
		})
	})
}

// fillAt fills the field of a selector, for fields that share a label.
func (p *page) fillAt(selector, value string) {
	p.t.Helper()
	p.until("fill in "+selector, func() error {
		return p.with(func(ctx context.Context, target *chromedp.Target) error {
			node, err := query(ctx, target, selector)
			if err != nil {
				return err
			}
			return write(ctx, target, node, value)
		})
	})
}

// valueOf returns the value of the field with a label.
func (p *page) valueOf(label string) (value string) {
	p.t.Helper()
	p.until("read "+label, func() error {
		return p.with(func(ctx context.Context, target *chromedp.Target) error {
			node, err := find(ctx, target, "body", label, fillable)
			if err != nil {
				return err
			}
			value, err = callOn[string](ctx, target, node, "function() { return this.value }")
			return err
		})
	})
	return value
}

// has waits for an element with a role and a name.
func (p *page) has(role, name string) {
	p.t.Helper()
	p.until(fmt.Sprintf("find the %s %q", role, name), func() error {
		return p.with(func(ctx context.Context, target *chromedp.Target) error {
			_, err := find(ctx, target, "body", name, []string{role})
			return err
		})
	})
}

// disabled waits for a disabled element with a name.
func (p *page) disabled(name string) {
	p.t.Helper()
	p.until(name+" is disabled", func() error {
		return p.with(func(ctx context.Context, target *chromedp.Target) error {
			node, err := find(ctx, target, "body", name, clickable)
			if err != nil {
				return err
			}
			is, err := callOn[bool](ctx, target, node, "function() { return this.disabled === true || this.getAttribute('aria-disabled') === 'true' }")
			if err == nil && !is {
				err = errors.New("it can be used")
			}
			return err
		})
	})
}

// with runs several protocol commands.
func (p *page) with(do func(context.Context, *chromedp.Target) error) error {
	ctx, cancel := context.WithTimeout(p.ctx, waitTimeout)
	defer cancel()
	return chromedp.Do(ctx, chromedp.Func(do))
}

// find returns the visible element with a name and one of some roles. An exact match wins over
// a prefix, since labels of fields include their type.
func find(ctx context.Context, target *chromedp.Target, selector, name string, roles []string) (cdp.BackendNodeID, error) {
	region, err := cdp.Call(ctx, target, runtime.Evaluate, runtime.EvaluateParams{
		Expression: whenLoaded("document.querySelector(" + quote(selector) + ")"),
	})
	if err != nil {
		return 0, err
	}
	if region.Result == nil || region.Result.ObjectID == "" {
		return 0, fmt.Errorf("nothing is %s, or the page loads", selector)
	}
	exact, err := named(ctx, target, accessibility.QueryAXTreeParams{ObjectID: region.Result.ObjectID, AccessibleName: name}, roles)
	if err != nil || len(exact) > 0 {
		return first(exact), err
	}
	var names []string
	for _, role := range roles {
		some, err := named(ctx, target, accessibility.QueryAXTreeParams{ObjectID: region.Result.ObjectID, Role: role}, roles)
		if err != nil {
			return 0, err
		}
		for _, node := range some {
			if strings.HasPrefix(textOf(node.Name), name+" ") {
				return node.BackendDOMNodeID, nil
			}
			names = append(names, textOf(node.Name))
		}
	}
	return 0, fmt.Errorf("nothing is called %q; there are %q", name, names)
}

// named returns the matching accessibility nodes.
func named(ctx context.Context, target *chromedp.Target, what accessibility.QueryAXTreeParams, roles []string) ([]*accessibility.Node, error) {
	found, err := cdp.Call(ctx, target, accessibility.QueryAXTree, what)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(found.Nodes, func(n *accessibility.Node) bool {
		return n.Ignored || !slices.Contains(roles, textOf(n.Role))
	}), nil
}

func first(nodes []*accessibility.Node) cdp.BackendNodeID {
	if len(nodes) == 0 {
		return 0
	}
	return nodes[0].BackendDOMNodeID
}

func textOf(value *accessibility.Value) (text string) {
	if value != nil {
		_ = json.Unmarshal(value.Value, &text) // other values are ignored
	}
	return text
}

// clickOn clicks the center of an element, unless it is covered or disabled. It returns an
// error if the click did not arrive, since the page may have moved.
func clickOn(ctx context.Context, target *chromedp.Target, node cdp.BackendNodeID) error {
	spot, err := callOn[[]float64](ctx, target, node, spotFunction)
	if err != nil {
		return err
	}
	if len(spot) != 2 {
		return errors.New("it cannot be clicked: it is disabled, covered, or has no size")
	}
	for _, kind := range []input.DispatchMouseEventType{"mouseMoved", "mousePressed", "mouseReleased"} {
		event := input.DispatchMouseEventParams{Type: kind, X: spot[0], Y: spot[1]}
		if kind != "mouseMoved" {
			event.Button, event.ClickCount = "left", 1
		}
		if _, err := cdp.Call(ctx, target, input.DispatchMouseEvent, event); err != nil {
			return err
		}
	}
	hit, err := callOn[bool](ctx, target, node, "function() { return this.wasHit }")
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err == nil && !hit:
		return errors.New("the click did not arrive")
	}
	return nil // The click has left the page.
}

// spotFunction returns where an element can be clicked, and records whether it was.
const spotFunction = `function() {
	this.scrollIntoView({block: "center", inline: "nearest", behavior: "instant"});
	const targets = [this, ...(this.labels ?? [])];
	for (const target of targets) {
		for (const box of target.getClientRects()) {
			const x = box.left + box.width / 2, y = box.top + box.height / 2;
			const hit = document.elementFromPoint(x, y);
			if (!this.disabled && hit && (target.contains(hit) || hit.contains(target) && hit.closest("a, button, label, summary") === target)) {
				this.wasHit = false;
				addEventListener("click", e => this.wasHit = e.composedPath().includes(target), {capture: true, once: true});
				return [x, y];
			}
		}
	}
	return [];
}`

// write fills a field like a user, with keys for text.
func write(ctx context.Context, target *chromedp.Target, node cdp.BackendNodeID, value string) error {
	done, err := callOn[string](ctx, target, node, "function() { const value = "+quote(value)+"; "+chooseBody+"}")
	if err != nil || done == "done" {
		return err
	}
	if done != "" {
		return errors.New(done)
	}
	if value == "" {
		_, err = callOn[any](ctx, target, node, `function() { document.execCommand("delete") }`)
	} else {
		_, err = cdp.Call(ctx, target, input.InsertText, input.InsertTextParams{Text: value})
	}
	if err != nil {
		return err
	}
	_, err = callOn[any](ctx, target, node, `function() { this.dispatchEvent(new Event("change", {bubbles: true})) }`)
	return err
}

// chooseBody selects an option, sets a time, or selects the text to replace.
const chooseBody = `
	if (this.disabled || this.readOnly) return "it cannot be changed";
	const tell = () => { for (const kind of ["input", "change"]) this.dispatchEvent(new Event(kind, {bubbles: true})); return "done" };
	if (this instanceof HTMLSelectElement) {
		const option = [...this.options].find(o => o.label.trim() === value || o.value === value);
		if (!option) return "there is no option " + value + " among " + [...this.options].map(o => o.label).join(", ");
		this.value = option.value;
		return tell();
	}
	this.scrollIntoView({block: "center", behavior: "instant"});
	this.focus();
	if (this.type?.match(/^(date|time|datetime-local|month|week|color|range)$/)) { this.value = value; return tell() }
	this.select?.();
	return "";
`

// callOn calls a function with an element as this.
func callOn[T any](ctx context.Context, target *chromedp.Target, node cdp.BackendNodeID, function string) (value T, err error) {
	resolved, err := cdp.Call(ctx, target, dom.ResolveNode, dom.ResolveNodeParams{BackendNodeID: node})
	if err != nil {
		return value, err
	}
	byValue := true
	result, err := cdp.Call(ctx, target, runtime.CallFunctionOn, runtime.CallFunctionOnParams{
		FunctionDeclaration: function, ObjectID: resolved.Object.ObjectID, ReturnByValue: &byValue,
	})
	switch {
	case err != nil:
		return value, err
	case result.ExceptionDetails != nil:
		return value, errors.New(describeException(result.ExceptionDetails))
	case len(result.Result.Value) == 0:
		return value, nil
	}
	return value, json.Unmarshal(result.Result.Value, &value)
}

// keys are the keys that tests press.
var keys = map[string]input.DispatchKeyEventParams{
	"Tab":    {Key: "Tab", Code: "Tab", WindowsVirtualKeyCode: 9},
	"Enter":  {Key: "Enter", Code: "Enter", WindowsVirtualKeyCode: 13, Text: "\r"},
	"/":      {Key: "/", Code: "Slash", WindowsVirtualKeyCode: 191, Text: "/"},
	"?":      {Key: "?", Code: "Slash", WindowsVirtualKeyCode: 191, Text: "?", Modifiers: 8},
	"Escape": {Key: "Escape", Code: "Escape", WindowsVirtualKeyCode: 27},
	// The command palette opens with Ctrl-K.
	"Ctrl-K":    {Key: "k", Code: "KeyK", WindowsVirtualKeyCode: 75, Modifiers: 2},
	"ArrowDown": {Key: "ArrowDown", Code: "ArrowDown", WindowsVirtualKeyCode: 40},
}

// press presses a key. Scripts handle all but Tab.
func (p *page) press(name string) {
	p.t.Helper()
	if name != "Tab" {
		p.loaded()
	}
	key, known := keys[name]
	if !known {
		p.t.Fatalf("there is no key %q", name)
	}
	down, up := key, key
	down.Type, up.Type, up.Text = "keyDown", "keyUp", ""
	if down.Text == "" {
		down.Type = "rawKeyDown"
	}
	p.do("press "+name, call(input.DispatchKeyEvent, down), call(input.DispatchKeyEvent, up))
}

// insert types text at the focus.
func insert(text string) chromedp.Action[chromedp.Void] {
	return call(input.InsertText, input.InsertTextParams{Text: text})
}
