package house

import (
	"github.com/setpoint-dev/setpoint/internal/must"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Every relative link of a page leads to a file that is there, and to a heading of it
// if it names one.
func TestLinksResolve(t *testing.T) {
	t.Parallel()
	for _, page := range markdownFiles(t) {
		for _, link := range linksOf(t, page) {
			file, heading, _ := strings.Cut(link, "#")
			target := page
			if file != "" {
				target = filepath.Join(filepath.Dir(page), file)
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s: the link %s leads nowhere: %v", page, link, err)
				continue
			}
			if heading != "" && strings.HasSuffix(target, ".md") && !headingsOf(t, target)[heading] {
				t.Errorf("%s: the link %s names a heading that %s does not have", page, link, target)
			}
		}
	}
}

// markdownFiles are the files of this repository for people.
func markdownFiles(t *testing.T) []string {
	t.Helper()
	var found []string
	must.Succeed(t, filepath.WalkDir(".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir():
			return skipFolder(entry.Name())
		case strings.HasSuffix(name, ".md"):
			found = append(found, name)
		}
		return nil
	}))
	return found
}

// linksOf are the links of a page that lead to places of this repository.
func linksOf(t *testing.T, page string) []string {
	t.Helper()
	target := regexp.MustCompile(`\]\(([^)\s]+)\)`)
	var links []string
	for _, line := range prose(t, page) {
		for _, match := range target.FindAllStringSubmatch(line, -1) {
			if !strings.Contains(match[1], "://") && !strings.HasPrefix(match[1], "mailto:") {
				links = append(links, match[1])
			}
		}
	}
	return links
}

// headingsOf are the names by which links can name the headings of a page: in small
// letters, without punctuation, with dashes for spaces.
func headingsOf(t *testing.T, page string) map[string]bool {
	t.Helper()
	dropped := regexp.MustCompile(`[^\p{L}\p{N}\- _]`)
	headings := map[string]bool{}
	for _, line := range prose(t, page) {
		if text := strings.TrimLeft(line, "#"); text != line {
			name := dropped.ReplaceAllString(strings.ToLower(strings.TrimSpace(text)), "")
			headings[strings.ReplaceAll(name, " ", "-")] = true
		}
	}
	return headings
}

// prose are the lines of a page, but for its code.
func prose(t *testing.T, page string) []string {
	t.Helper()
	text := must.Get(os.ReadFile(page)).In(t)
	code := regexp.MustCompile("`[^`]*`")
	var lines []string
	fenced := false
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			fenced = !fenced
		} else if !fenced && !strings.HasPrefix(line, "    ") {
			lines = append(lines, line)
		}
	}
	for i, line := range lines {
		if !strings.HasPrefix(line, "#") && !strings.Contains(line, "[`") {
			lines[i] = code.ReplaceAllString(line, "")
		}
	}
	return lines
}
