package hook

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// DecodeCustomizeResponse reads the answer to a CustomizeRequest. It obeys the
// rules of DecodeResponse: a missing list of rules must never pass for "none",
// nor a misspelt selector for one that selects everything.
func DecodeCustomizeResponse(data []byte, d Decoding) (*CustomizeResponse, error) {
	r := rulesReader{reader: newReader(data, d), rules: list{name: fieldRelated, dependent: true}, out: &CustomizeResponse{}}
	if err := r.reply(); err != nil {
		return nil, r.malformed(err)
	}
	return r.out, nil
}

const fieldRelated = "relatedResources"

// rulesReader reads the answer to a CustomizeRequest.
type rulesReader struct {
	reader

	rules list
	out   *CustomizeResponse
}

func (r *rulesReader) reply() error {
	if err := r.whole(r.field); err != nil {
		return err
	}
	return r.complete(r.rules, []string{r.rules.name})
}

func (r *rulesReader) field(name []byte) error {
	if string(name) == r.rules.name {
		r.out.Related = nil
		return r.items(&r.rules, r.rule)
	}
	return r.beside(r.rules, name, []string{r.rules.name})
}

func (r *rulesReader) rule() error {
	var rule RelatedRule
	var odd string
	err := r.members(func(name []byte) error {
		switch string(name) {
		case "apiVersion":
			return r.word(&rule.APIVersion)
		case "resource":
			return r.word(&rule.Resource)
		case "namespace":
			return r.word(&rule.Namespace)
		case "names":
			rule.Names = nil
			return r.words(&rule.Names)
		case "labelSelector":
			return r.selector(&rule.LabelSelector)
		case "namespaceSelector":
			return r.selector(&rule.NamespaceSelector)
		}
		odd = string(name)
		return r.stray(name, ruleFields())
	})
	if err != nil {
		return err
	}
	r.out.Related = append(r.out.Related, rule)
	return r.checkRule(rule, odd)
}

func ruleFields() []string {
	return []string{"apiVersion", "resource", "labelSelector", "namespaceSelector", "namespace", "names"}
}

func (r *rulesReader) checkRule(rule RelatedRule, odd string) error {
	switch {
	case rule.APIVersion == "":
		return r.fault(".apiVersion", "required")
	case rule.Resource == "":
		return r.fault(".resource", "required")
	case rule.LabelSelector == nil && rule.NamespaceSelector == nil && rule.Namespace == "" && rule.Names == nil:
		return r.misspelt(odd, ruleFields())
	}
	return nil
}

// misspelt refuses, where everything is selected, a field passed over that looks
// like a selection.
func (r *rulesReader) misspelt(odd string, fields []string) error {
	if hint := suggestion(odd, fields); hint != "" {
		return r.fault(below(odd), "unknown field, and nothing else narrows what is selected%s", hint)
	}
	return nil
}

// words reads a list of strings. An empty one is not the same as none.
func (r *rulesReader) words(into *[]string) error {
	if r.null() {
		return r.skip()
	}
	*into = []string{}
	return r.elements("a list", func() error {
		var word string
		err := r.string(&word)
		*into = append(*into, word)
		return err
	})
}

func (r *rulesReader) selector(into **metav1.LabelSelector) error {
	*into = nil
	if r.null() {
		return r.skip()
	}
	s := &metav1.LabelSelector{}
	*into = s
	fields := []string{"matchLabels", "matchExpressions"}
	var odd string
	err := r.members(func(name []byte) error {
		switch string(name) {
		case "matchLabels":
			return r.matchLabels(s)
		case "matchExpressions":
			s.MatchExpressions = nil
			return r.optional(func() error { return r.requirement(s) })
		}
		odd = string(name)
		return r.stray(name, fields)
	})
	if err == nil && len(s.MatchLabels)+len(s.MatchExpressions) == 0 {
		err = r.misspelt(odd, fields)
	}
	return err
}

func (r *rulesReader) matchLabels(s *metav1.LabelSelector) error {
	s.MatchLabels = nil
	if r.null() {
		return r.skip()
	}
	s.MatchLabels = map[string]string{}
	return r.members(func(name []byte) error {
		key := string(name)
		var value string
		err := r.string(&value)
		s.MatchLabels[key] = value
		return err
	})
}

func (r *rulesReader) requirement(s *metav1.LabelSelector) error {
	var q metav1.LabelSelectorRequirement
	var operator string
	err := r.members(func(name []byte) error {
		switch string(name) {
		case "key":
			return r.word(&q.Key)
		case "operator":
			return r.word(&operator)
		case "values":
			q.Values = nil
			return r.words(&q.Values)
		}
		return r.stray(name, []string{"key", "operator", "values"})
	})
	q.Operator = metav1.LabelSelectorOperator(operator)
	s.MatchExpressions = append(s.MatchExpressions, q)
	return err
}
