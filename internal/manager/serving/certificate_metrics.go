package serving

import "github.com/prometheus/client_golang/prometheus"

var (
	certificateBeginDesc = newDesc("setpoint_admission_certificate_not_before_timestamp_seconds",
		"Begin of the validity of the certificate of the webhook server.")
	certificateEndDesc = newDesc("setpoint_admission_certificate_not_after_timestamp_seconds",
		"End of the validity of the certificate of the webhook server.")
)

// Describe describes nothing: without webhooks there is no certificate.
func (*Webhooks) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (w *Webhooks) Collect(to chan<- prometheus.Metric) {
	w.mu.Lock()
	certificates := w.certificates
	w.mu.Unlock()
	if certificates == nil {
		return
	}
	if serving, err := certificates.ServingCertificate(); err == nil && serving.Leaf != nil {
		gauge(to, certificateBeginDesc, float64(serving.Leaf.NotBefore.Unix()))
		gauge(to, certificateEndDesc, float64(serving.Leaf.NotAfter.Unix()))
	}
}
