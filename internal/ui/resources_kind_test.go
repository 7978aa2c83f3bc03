package ui

import "testing"

func TestWhatNarrowsAListGoesAlongToAnotherNamespace(t *testing.T) {
	a := newAnswers(t, someKinds())
	a.byPath["/apis/example.org/v1/namespaces/shop/webs"] = `{"rows":[]}`
	body := get(t, a.window(t), "/resources/webs.example.org?namespace=shop&name=a&labels=b%3Dc").Body.String()
	wants(t, body, `<span id="kept"><input type="hidden" name="name" value="a"><input type="hidden" name="labels" value="b=c"></span>`, `hx-select-oob="#kept"`)
}
