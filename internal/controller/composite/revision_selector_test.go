package composite

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/plan"
)

// revisionServer is a fakeServer with a revision of the shop.
type revisionServer struct{ fakeServer }

func (s *revisionServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	if !strings.HasSuffix(r.URL.Path, "/controllerrevisions") || query.Get("sendInitialEvents") != "" || query.Get("watch") != "" {
		s.fakeServer.ServeHTTP(w, r)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, `{"apiVersion":"apps/v1","kind":"ControllerRevisionList","metadata":{"resourceVersion":"10"},"items":[`+
		`{"apiVersion":"apps/v1","kind":"ControllerRevision","metadata":{"name":"a-1","namespace":"town","uid":"r","resourceVersion":"6","labels":{"`+plan.ParentUIDLabel+`":"u-a"},`+
		`"ownerReferences":[{"apiVersion":"example.org/v1","kind":"Shop","name":"a","uid":"u-a","controller":true}]},"revision":1}]}`)
}

// Fault U6: the tree of a parent includes its revisions, which are deleted with it.
func TestChildrenIncludeRevisions(t *testing.T) {
	c := newTestControllerWith(t, &revisionServer{}, Tools{Tools: controller.Tools{Observer: &runRecorder{}}}, plan.RollingInPlace)
	<-c.Watches()[0].View.Ready()
	<-c.revisions.Ready()
	for shop := range c.Managed() {
		family := c.Children(shop)
		if len(family) != 1 || family[0].Resource != plan.ControllerRevisions || family[0].Object.Name() != "a-1" {
			t.Errorf("the family is %+v", family)
		}
		return
	}
	t.Error("there is no shop")
}
