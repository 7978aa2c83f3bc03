package plan

import "testing"

func TestMissingField(t *testing.T) {
	for name, c := range map[string]struct{ observed, desired, want string }{
		"all there, and more":         {`{data: {k: v, theirs: x}, metadata: {labels: {app: x, theirs: x}}}`, `{data: {k: v}, metadata: {labels: {app: x}}}`, ""},
		"another value":               {`{data: {k: w}}`, `{data: {k: v}}`, "data.k"},
		"another label":               {`{metadata: {labels: {app: z}}}`, `{metadata: {labels: {app: x}}}`, "metadata.labels.app"},
		"missing":                     {`{spec: {}}`, `{spec: {replicas: 0}}`, "spec.replicas"},
		"another type":                {`{spec: [a]}`, `{spec: {a: b}}`, "spec"},
		"defaults in items":           {`{ports: [{port: 80, protocol: TCP}]}`, `{ports: [{port: 80}]}`, ""},
		"another item":                {`{ports: [{port: 80}, {port: 81}]}`, `{ports: [{port: 80}]}`, "ports"},
		"another order":               {`{env: [{name: B}, {name: A}]}`, `{env: [{name: A}, {name: B}]}`, "env[0].name"},
		"more in items without a key": {`{rules: [{from: [], to: []}]}`, `{rules: [{from: []}]}`, "rules[0].to"},
		"values":                      {`{args: [a, b]}`, `{args: [a, c]}`, "args[1]"},
		"numbers":                     {`{n: 1}`, `{n: 1.0}`, ""},
		"others' finalizers":          {`{metadata: {finalizers: [b, a]}}`, `{metadata: {finalizers: [a]}}`, ""},
		"a finalizer":                 {`{metadata: {finalizers: [b]}}`, `{metadata: {finalizers: [a]}}`, "metadata.finalizers"},
		"others' owners":              {`{metadata: {ownerReferences: [{uid: p, name: p}, {uid: o, name: o}]}}`, `{metadata: {ownerReferences: [{uid: o}]}}`, ""},
		"an owner":                    {`{metadata: {ownerReferences: [{uid: p}]}}`, `{metadata: {ownerReferences: [{uid: o}]}}`, "metadata.ownerReferences"},
	} {
		observed, desired := treeOf(t, []byte(c.observed)).(map[string]any), treeOf(t, []byte(c.desired)).(map[string]any)
		if got := missingField(observed, desired); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestHasLeftovers(t *testing.T) {
	for name, c := range map[string]struct {
		stored, applied string
		want            bool
	}{
		"as applied":           {`{spec: {l: [{name: a, x: 1}]}}`, `{spec: {l: [{name: a}]}}`, false},
		"one more":             {`{spec: {l: [{name: a}, {name: b}]}}`, `{spec: {l: [{name: a}]}}`, true},
		"one more within":      {`{spec: {l: [{name: a, m: [1, 2]}]}}`, `{spec: {l: [{name: a, m: [1]}]}}`, true},
		"a list not applied":   {`{spec: {l: [1], k: v}}`, `{spec: {k: v}}`, false},
		"one less":             {`{spec: {l: []}}`, `{spec: {l: [1]}}`, false},
		"others' owners":       {`{metadata: {ownerReferences: [{uid: a}, {uid: b}]}}`, `{metadata: {ownerReferences: [{uid: a}]}}`, false},
		"it is another by now": {`{spec: {l: {}}}`, `{spec: {l: [1]}}`, false},
	} {
		stored, applied := parse(t, jsonOf(t, treeOf(t, []byte(c.stored)))), parse(t, jsonOf(t, treeOf(t, []byte(c.applied))))
		if got, err := HasLeftovers(applied, stored); err != nil || got != c.want {
			t.Errorf("%s: %v, %v, want %v", name, got, err, c.want)
		}
	}
}
