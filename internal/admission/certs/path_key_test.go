package certs

import (
	"testing"

	"github.com/setpoint-dev/setpoint/internal/admission"
)

// A Secret from a release without keys: the server accepts its paths until the keys are known.
func TestPathsBeforeThereWereKeys(t *testing.T) {
	current := &keyring{}
	k := NewManager(Options{})
	k.keyring = current
	if plain, ours := k.PathKeys().StripToken("/admit/web/check"); !ours || plain != "/admit/web/check" {
		t.Errorf("without a key: %q, %v", plain, ours)
	}
	k.keyring = k.mergePathKey(&keyring{pathKey: "key"})
	for _, path := range []string{"/admit/web/check", admission.PathKey("key").AddToken("/admit/web/check")} {
		if plain, ours := k.PathKeys().StripToken(path); !ours || plain != "/admit/web/check" {
			t.Errorf("%s: %q, %v", path, plain, ours)
		}
	}
}
