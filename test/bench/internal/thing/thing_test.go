package thing

import "testing"

func TestNamesRoundTrip(t *testing.T) {
	for _, i := range []int{0, 7, 99999, 123456} {
		if got, ok := Index(Name(i)); !ok || got != i {
			t.Errorf("parent %d came back as %d, %v", i, got, ok)
		}
		gotI, gotJ, ok := ChildIndex(ChildName(Name(i), 12))
		if !ok || gotI != i || gotJ != 12 {
			t.Errorf("child 12 of %d came back as %d of %d, %v", i, gotJ, gotI, ok)
		}
	}
}

func TestForeignNames(t *testing.T) {
	for _, name := range []string{"", "thing-", "thing-x", "kube-root-ca.crt", "thing--1"} {
		if i, ok := Index(name); ok {
			t.Errorf("%q taken for parent %d", name, i)
		}
	}
	for _, name := range []string{"", "thing-00001", "thing-00001-", "thing-00001-x", "other-1-1"} {
		if i, j, ok := ChildIndex(name); ok {
			t.Errorf("%q taken for child %d of %d", name, j, i)
		}
	}
}

func TestDeepCopyIsIndependent(t *testing.T) {
	list := &ThingList{Items: []Thing{{Spec: Spec{Value: "a"}}}}
	list.Items[0].Labels = map[string]string{"k": "a"}
	out, ok := list.DeepCopyObject().(*ThingList)
	if !ok {
		t.Fatal("the copy is of another type")
	}
	out.Items[0].Labels["k"] = "b"
	out.Items[0].Spec.Value = "b"
	if list.Items[0].Labels["k"] != "a" || list.Items[0].Spec.Value != "a" {
		t.Errorf("the original changed with its copy: %+v", list.Items[0])
	}
}
