package diff

import (
	"encoding/json"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-dev/setpoint/internal/apply"
	"github.com/setpoint-dev/setpoint/internal/lists"
)

// FieldManagers returns the field managers that changed an object between since and until,
// according to its current managedFields. It returns none if a later write hides them. If
// none of the changed fields is managed, it returns the only manager that wrote in that time.
func FieldManagers(managed, before, after json.RawMessage, since, until time.Time) ([]string, error) {
	var entries []metav1.ManagedFieldsEntry
	if err := json.Unmarshal(managed, &entries); err != nil {
		return nil, fmt.Errorf("read metadata.managedFields: %w", err)
	}
	left, right, err := unmarshalBoth(before, after)
	if err != nil {
		return nil, err
	}
	var certain, possible []string
	managedByOthers := false
	for _, entry := range entries {
		if entry.Time == nil || entry.FieldsV1 == nil {
			continue
		}
		if len(before) == 0 && entry.Subresource != "" {
			continue // A status writer did not create the object.
		}
		var owned apply.FieldSet
		if err := json.Unmarshal(entry.FieldsV1.GetRawBytes(), &owned); err != nil {
			return nil, fmt.Errorf("read managed fields of %s: %w", entry.Manager, err)
		}
		touched := owned.Differs(left, right)
		if entry.Time.Add(timeResolution).Before(since) || entry.Time.After(until) {
			managedByOthers = managedByOthers || touched
			continue
		}
		// A manager may have an entry for each subresource.
		possible = lists.Union(possible, []string{entry.Manager})
		if touched {
			certain = lists.Union(certain, []string{entry.Manager})
		}
	}
	if len(certain) == 0 && len(possible) == 1 && !managedByOthers {
		return possible, nil
	}
	return certain, nil
}

// timeResolution is that of times in managedFields.
const timeResolution = time.Second

func unmarshalBoth(before, after json.RawMessage) (left, right any, err error) {
	for text, into := range map[*json.RawMessage]*any{&before: &left, &after: &right} {
		if len(*text) == 0 {
			continue
		}
		if err := json.Unmarshal(*text, into); err != nil {
			return nil, nil, fmt.Errorf("parse object: %w", err)
		}
	}
	return left, right, nil
}
