// Package scripttest has the tests that all engines of package script pass: that an author's code
// cannot escape, what it can exhaust, that the same request gives the same response, and that the page for
// authors is true. Call is for the tests of each engine.
package scripttest
