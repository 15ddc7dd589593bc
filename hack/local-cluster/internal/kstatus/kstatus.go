// Package kstatus asks cli-utils' kstatus, which Flux and kpt wait by, what it makes of objects.
package kstatus

import (
	"encoding/json"
	"errors"
	"io"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"
)

// Run reads JSON objects until in ends, and writes status and message of each as a JSON line.
func Run(in io.Reader, out io.Writer) error {
	decoder, encoder := json.NewDecoder(in), json.NewEncoder(out)
	for {
		object := unstructured.Unstructured{}
		if err := decoder.Decode(&object); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		result, err := status.Compute(&object)
		if err != nil {
			return err
		}
		if err := encoder.Encode(map[string]any{"status": result.Status, "message": result.Message}); err != nil {
			return err
		}
	}
}
