package browser

import (
	"errors"
	"fmt"
	"testing"
)

// TestPauseAndResume clicks the same button twice. The second click undoes the first, since the
// focused button changes too. Fault U2.
func TestPauseAndResume(t *testing.T) {
	t.Parallel()
	c := sharedCluster(t)
	ns := c.namespace()
	c.apply("{apiVersion: kool.karmalabs.local/v1, kind: Guitar, metadata: {name: quiet, namespace: " + ns + "}, spec: {brand: Gibson}}")
	paused := func(want string) {
		t.Helper()
		until(t, "be paused: "+want, waitTimeout, func() error {
			got, err := c.try("", "get", "guitars.kool.karmalabs.local", "quiet", "-n", ns, "-o", `jsonpath={.metadata.annotations.setpoint\.dev/paused}`)
			if err == nil && got != want {
				err = fmt.Errorf("it is %q", got)
			}
			return err
		})
	}
	p := newPage(t, sharedUI())
	p.open(guitarsPath + "/" + ns + "/quiet")
	p.click("Pause")
	paused("true")
	p.until("have the focused button say Resume", func() error {
		said, err := evaluate[string](p, "document.activeElement?.textContent.trim() + ' ' + document.activeElement?.form?.elements.do?.value")
		if err == nil && said != "Resume resume" {
			err = fmt.Errorf("it says %q", said)
		}
		return err
	})
	p.press("Enter")
	paused("")
	p.seeIn("main", "Pause")
}

// TestColumnsAreStable changes the cells of the overview: no column moves. Fault U10.
func TestColumnsAreStable(t *testing.T) {
	t.Parallel()
	p := newPage(t, sharedUI())
	p.open("/")
	p.see("guitar")
	const widths = `[...document.querySelectorAll("main table.table-still th")].map(e => Math.round(e.getBoundingClientRect().width)).join(" ")`
	p.until("keep the columns", func() error {
		moved, err := evaluate[string](p, `(() => {
			const before = `+widths+`;
			for (const e of document.querySelectorAll("main .table-still tbody tr:first-child td")) e.append(" 1 234 567 890 and much more than before");
			const after = `+widths+`;
			return before === after ? "" : before + " became " + after;
		})()`)
		if err == nil && moved != "" {
			err = errors.New(moved)
		}
		return err
	})
}
