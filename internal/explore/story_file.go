package explore

import (
	"os"
	"path/filepath"
	"strings"

	"sigs.k8s.io/yaml"
)

// SaveStories writes a file for each violation that has steps, and returns the files. A prefix comes before the names.
func SaveStories(folder, prefix string, violations []Story) ([]string, error) {
	var saved []string
	for i := range violations {
		story := violations[i]
		if len(story.Steps) == 0 {
			continue // A call is enough to see it.
		}
		story.Metadata.Name = prefix + story.Metadata.Name
		text, err := yaml.Marshal(story)
		if err != nil {
			return saved, err
		}
		if err := os.MkdirAll(folder, 0o750); err != nil {
			return saved, err
		}
		file := filepath.Join(folder, FileName(story.Metadata.Name)+".yaml")
		if err := os.WriteFile(file, text, 0o644); err != nil {
			return saved, err
		}
		saved = append(saved, file)
	}
	return saved, nil
}

// FileName returns a name without what file systems or shells take for something else.
func FileName(name string) string {
	return strings.Map(func(r rune) rune {
		if strings.ContainsRune(`/\:*?"<>|'$&;()[]{}`+"`!# \t\n", r) {
			return '-'
		}
		return r
	}, name)
}
