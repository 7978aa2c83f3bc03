package soak

import (
	"encoding/base64"
	"fmt"
)

// The kinds of parents.
const (
	plot = "plot" // ConfigMaps and a Secret
	shed = "shed" // finalized child by child
	pot  = "pot"  // of metacontroller.k8s.io, with a selector
	lamp = "lamp" // decorated while it is lit
	bell = "bell" // handled, and reviewed before it is stored
	barn = "barn" // whose hook has ever new versions
)

func kinds() []string { return []string{plot, shed, pot, lamp, bell, barn} }

// canary is a parent that cannot have all it wants: another has its child's name.
const canary = plot + "-canary"

// parent is what a hook reads of one, and a check too.
type parent struct {
	Kind     string
	Metadata struct {
		Name, Namespace, UID string
		Annotations, Labels  map[string]string
	}
	Spec struct {
		Children int
		Value    string
	}
	// Status is that of a bell.
	Status struct{ Rung, Echo string }
}

func (p *parent) lit() bool { return p.Metadata.Annotations["lit"] == "yes" }

// desiredChild is a child that a parent wants.
type desiredChild struct {
	kind, name string
	// value is what its data says, as it stands there.
	value string
}

// desiredChildren are all that a parent wants: what the hook asks for, and what has to be
// there in the end.
func (p *parent) desiredChildren() []desiredChild {
	name := p.Metadata.Name
	if p.Kind == "Lamp" && !p.lit() {
		return nil
	}
	if p.Kind == "Bell" {
		return []desiredChild{{"ConfigMap", name + "-tone", p.Spec.Value}}
	}
	var all []desiredChild
	for i := range p.Spec.Children {
		all = append(all, desiredChild{"ConfigMap", fmt.Sprintf("%s-%d", name, i), p.Spec.Value})
	}
	if p.Kind == "Tent" {
		all = append(all, desiredChild{"Peg", name + "-peg", p.Spec.Value})
	}
	if p.Kind == "Plot" {
		all = append(all, desiredChild{"Secret", name + "-key", base64.StdEncoding.EncodeToString([]byte(p.Spec.Value))})
	}
	return all
}

// object returns the child as a hook responds with it.
func (w desiredChild) object(p *parent) map[string]any {
	metadata := map[string]any{"name": w.name}
	if p.Kind == "Pot" {
		metadata["labels"] = map[string]any{pot: p.Metadata.Name}
	}
	apiVersion := "v1"
	if w.kind == "Peg" {
		apiVersion = "camp.soak.test/v1"
	}
	return map[string]any{
		"apiVersion": apiVersion, "kind": w.kind, "metadata": metadata, "data": map[string]any{"value": w.value},
	}
}
