// Package thing is the reference work: the kind that every contender
// reconciles, how its objects and their children are named, and its CRD.
//
// A Thing wants spec.children ConfigMaps holding spec.value, and the status
// {ready: children, value: value}. With spec.shared it also wants to be looked at
// again whenever the ConfigMap of that name changes. The types are what a hand-written controller
// would have; the load generator and the hook use the names only.
package thing

import (
	_ "embed"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Where Things are served.
const (
	Group    = "bench.setpoint.dev"
	Version  = "v1"
	Kind     = "Thing"
	Resource = "things"
	CRDName  = Resource + "." + Group
)

// ValueKey is where a child holds its parent's value, TextKey where it holds its
// padding.
const (
	ValueKey = "value"
	TextKey  = "text"
)

// Data is what a child of that name holds.
func (s *Spec) Data(child string) map[string]string {
	data := map[string]string{ValueKey: s.Value}
	if s.Padding > 0 {
		data[TextKey] = padding(child, s.Padding)
	}
	return data
}

// padding is text that differs from child to child and hides no pattern that
// would make it smaller in memory than in the open.
func padding(child string, size int) string {
	seed := fnv.New64a()
	_, _ = seed.Write([]byte(child))
	random := rand.New(rand.NewPCG(seed.Sum64(), 0)) //nolint:gosec // To look random is all that is asked.
	text := make([]byte, size)
	for i := range text {
		text[i] = byte('a' + random.IntN('z'-'a'+1))
	}
	return string(text)
}

// CRD is the CustomResourceDefinition, as YAML.
//
//go:embed crd.yaml
var CRD []byte

// GroupVersion is Group and Version together.
func GroupVersion() schema.GroupVersion {
	return schema.GroupVersion{Group: Group, Version: Version}
}

// AddToScheme makes the types known to a client.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion(), &Thing{}, &ThingList{})
	metav1.AddToGroupVersion(scheme, GroupVersion())
	return nil
}

// Name is the name of the i-th parent.
func Name(i int) string { return fmt.Sprintf("thing-%05d", i) }

// ChildName is the name of a parent's j-th child.
func ChildName(parent string, j int) string { return parent + "-" + strconv.Itoa(j) }

// Index reads a parent's number from its name; ok is false for names that
// Name does not make.
func Index(name string) (i int, ok bool) {
	digits, found := strings.CutPrefix(name, "thing-")
	if !found {
		return 0, false
	}
	i, err := strconv.Atoi(digits)
	return i, err == nil && i >= 0
}

// ChildIndex reads the numbers of parent and child from a child's name.
func ChildIndex(name string) (i, j int, ok bool) {
	dash := strings.LastIndexByte(name, '-')
	if dash < 0 {
		return 0, 0, false
	}
	i, ok = Index(name[:dash])
	j, err := strconv.Atoi(name[dash+1:])
	return i, j, ok && err == nil && j >= 0
}
