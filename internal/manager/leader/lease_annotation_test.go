package leader

import (
	"sync/atomic"
	"testing"

	api "k8s.io/api/coordination/v1"

	"github.com/setpoint-dev/setpoint/internal/inspect/locate"
)

func TestLeaseAnnotationNamesHolder(t *testing.T) {
	address := &atomic.Pointer[string]{}
	p := annotatingLeases{identity: "me", address: address}
	lease := func(holder string, annotations map[string]string) *api.Lease {
		l := &api.Lease{}
		l.Annotations, l.Spec.HolderIdentity = annotations, &holder
		return l
	}
	if got := p.annotate(lease("me", nil)); len(got.Annotations) != 0 {
		t.Errorf("annotations %v before the address is known", got.Annotations)
	}
	address.Store(new("here/pod:1"))
	given := lease("me", map[string]string{"a": "b"})
	if got := p.annotate(given).Annotations; got[locate.LeaseAnnotation] != "here/pod:1" || got["a"] != "b" || len(given.Annotations) != 1 {
		t.Errorf("annotations %v, original %v", got, given.Annotations)
	}
	if got := p.annotate(lease("", map[string]string{locate.LeaseAnnotation: "here/pod:1"})).Annotations; len(got) != 0 {
		t.Errorf("annotations %v after the release", got)
	}
}
