package main

import (
	"archive/zip"
	"bytes"
	"encoding/pem"
	"fmt"
	"io"
	"strings"

	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// caCertificates returns the root certificates of Mozilla's list in PEM, as the Go project keeps
// them. Those with a constraint that a PEM file cannot express are left out.
func caCertificates() []byte {
	var text bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			// A bytes.Buffer does not fail.
			_ = pem.Encode(&text, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate})
		}
	}
	return text.Bytes()
}

// timeZones returns the time zones of the Go distribution as files.
func timeZones(archive string) ([]entry, error) {
	zones, err := zip.OpenReader(archive)
	if err != nil {
		return nil, fmt.Errorf("time zones: %w", err)
	}
	defer zones.Close()
	var all []entry
	for _, file := range zones.File {
		if strings.HasSuffix(file.Name, "/") {
			continue
		}
		data, err := readZipped(file)
		if err != nil {
			return nil, fmt.Errorf("time zone %s: %w", file.Name, err)
		}
		all = append(all, entry{"usr/share/zoneinfo/" + file.Name, data, 0o644})
	}
	return all, nil
}

func readZipped(file *zip.File) ([]byte, error) {
	r, err := file.Open()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return io.ReadAll(r)
}
