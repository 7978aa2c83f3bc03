package ui

import (
	"bytes"
	"compress/flate"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/setpoint-dev/setpoint/internal/ui/form"
)

// maxUnpacked is how large an object may be that a page has sent back, as JSON.
const maxUnpacked = form.MaxBytes

// packed is an object as it travels with a page: small, and of letters that a form sends
// as they are. JSON, each quote of which a form sends as three letters or six, would be
// several times as large as the object. It is "" for none.
func packed(object map[string]any) string {
	if object == nil {
		return ""
	}
	var out strings.Builder
	letters := base64.NewEncoder(base64.RawURLEncoding, &out)
	small, err := flate.NewWriter(letters, flate.BestSpeed)
	if err != nil {
		return ""
	}
	encoder := json.NewEncoder(small)
	encoder.SetEscapeHTML(false)
	//nolint:errchkjson // It is checked here.
	if encoder.Encode(object) != nil || small.Close() != nil || letters.Close() != nil {
		return ""
	}
	return out.String()
}

// unpacked is the object that was packed; nil for "".
func unpacked(text string) (map[string]any, error) {
	if text == "" {
		return nil, nil //nolint:nilnil // No object is what there is.
	}
	letters := base64.NewDecoder(base64.RawURLEncoding, strings.NewReader(text))
	data, err := io.ReadAll(io.LimitReader(flate.NewReader(letters), maxUnpacked+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("unpack an object: %w", err)
	case len(data) > maxUnpacked:
		return nil, fmt.Errorf("unpack an object: it has more than %s", size(maxUnpacked))
	}
	return form.DecodeJSON(bytes.TrimSpace(data))
}

// compact is an object as JSON; "" for none.
func compact(object map[string]any) string {
	if object == nil {
		return ""
	}
	data, err := json.Marshal(object)
	if err != nil {
		return ""
	}
	return string(data)
}
