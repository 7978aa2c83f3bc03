// Command need says in one sentence what this machine lacks for a real node whose files are in a folder, and exits with 1. It
// changes nothing.
package main

import (
	"fmt"
	"os"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: need FOLDER")
		os.Exit(2)
	}
	for _, check := range checks {
		if err := check(os.Args[1]); err != nil {
			fmt.Fprintln(os.Stderr, "a real node needs", err)
			os.Exit(1)
		}
	}
}
