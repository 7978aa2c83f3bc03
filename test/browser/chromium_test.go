package browser

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/chromedp/chromedp"
)

// chromium is the one browser of all tests. Its windows know nothing of each other:
// each test has a profile of its own.
var chromium context.Context

// startChromium starts it, and installs it before, where that can be done.
func startChromium(ctx context.Context) (stop func(), err error) {
	finder := exec.Command(filepath.Join("..", "..", "tools", "find-chromium.sh"))
	finder.Stderr = os.Stderr
	found, err := finder.Output()
	if err != nil {
		return nil, fmt.Errorf("find a browser: %w", err)
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(strings.TrimSpace(string(found))),
		chromedp.WindowSize(desktopWidth, desktopHeight),
		chromedp.Flag("hide-scrollbars", true),
		// Else what is done before the first frame is drawn is dropped.
		chromedp.Flag("allow-pre-commit-input", true),
		chromedp.WSURLReadTimeout(2*time.Minute),
	)
	if os.Geteuid() == 0 {
		// Chromium's sandbox refuses to be made by root.
		options = append(options, chromedp.NoSandbox)
	}
	allocator, stopAllocator := chromedp.NewExecAllocator(ctx, options...)
	browser, stopBrowser := chromedp.NewContext(allocator)
	stop = func() {
		stopBrowser()
		stopAllocator()
	}
	// The first action starts it.
	if err := chromedp.Do(browser); err != nil {
		stop()
		return nil, fmt.Errorf("start %s: %w", strings.TrimSpace(string(found)), err)
	}
	chromium = browser
	return stop, nil
}
