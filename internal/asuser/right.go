package asuser

import (
	"errors"
	"regexp"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Right is what a user would have to be allowed.
type Right struct {
	User     string
	Verb     string
	Resource string
	Group    string
	// Namespace is empty for a right on all of the cluster.
	Namespace string
}

// rightMissing is how the API server says that a right is missing.
var rightMissing = regexp.MustCompile(`User "([^"]*)" cannot (\S+) resource "([^"]*)" in API group "([^"]*)" (?:in the namespace "([^"]*)"|at the cluster scope)`)

// Missing is the right for want of which a request was refused; no other reason to
// refuse one has it.
func Missing(err error) (Right, bool) {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return Right{}, false
	}
	m := rightMissing.FindStringSubmatch(status.Status().Message)
	if m == nil {
		return Right{}, false
	}
	return Right{User: m[1], Verb: m[2], Resource: m[3], Group: m[4], Namespace: m[5]}, true
}

// String is the right in words: "create guitars.kool.example.org in the namespace shop".
func (r Right) String() string {
	if r.Namespace == "" {
		return r.Verb + " " + r.resource() + " in all of the cluster"
	}
	return r.Verb + " " + r.resource() + " in the namespace " + r.Namespace
}

func (r Right) resource() string {
	main, sub, _ := strings.Cut(r.Resource, "/")
	text := strings.TrimSuffix(main+"."+r.Group, ".")
	if sub != "" {
		text += "/" + sub
	}
	return text
}

// Commands give the right, typed by somebody who may.
func (r Right) Commands() []string {
	main, _, _ := strings.Cut(r.Resource, "/")
	name := quote(main + "-" + r.Verb)
	whom := "--user=" + quote(r.User)
	if account, ok := strings.CutPrefix(r.User, "system:serviceaccount:"); ok {
		whom = "--serviceaccount=" + quote(account)
	}
	to := " --verb=" + quote(r.Verb) + " --resource=" + quote(r.resource())
	if r.Namespace == "" {
		return []string{
			"kubectl create clusterrole " + name + to,
			"kubectl create clusterrolebinding " + name + " --clusterrole=" + name + " " + whom,
		}
	}
	in := " -n " + quote(r.Namespace)
	return []string{
		"kubectl create role " + name + to + in,
		"kubectl create rolebinding " + name + " --role=" + name + " " + whom + in,
	}
}

// quote writes a word for a shell.
func quote(word string) string {
	if strings.Trim(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._:/@") == "" {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
