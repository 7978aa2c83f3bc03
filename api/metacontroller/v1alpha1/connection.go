package v1alpha1

// EndpointConfig holds the connection settings for one host.
type EndpointConfig struct {
	// host, or host:port, of the URL of a webhook. The case does not matter, and neither do :80 with
	// http and :443 with https.
	// +required
	Host string `json:"host"`

	ConnectionSettings `json:",inline"`
}

// ConnectionSettings secure a connection. A webhook that has any of them uses none of the
// EndpointConfig of its host.
type ConnectionSettings struct {
	// caBundle holds the certificates that vouch for the endpoint. Absent means those of the system.
	// +optional
	CABundle *CABundle `json:"caBundle,omitempty"`

	// clientTLS is the certificate to show to the endpoint.
	// +optional
	ClientTLS *ClientTLS `json:"clientTLS,omitempty"`

	// authorization is a token to send. It excludes basicAuth.
	// +optional
	Authorization *Authorization `json:"authorization,omitempty"`

	// basicAuth is a user name and password to send. It excludes authorization.
	// +optional
	BasicAuth *BasicAuth `json:"basicAuth,omitempty"`
}

// CABundle says where certificates in PEM form are: in exactly one of three places.
type CABundle struct {
	// inline holds the certificates themselves.
	// +optional
	Inline *string `json:"inline,omitempty"`

	// secretRef names the key of a Secret that holds them.
	// +optional
	SecretRef *CertificateKeyReference `json:"secretRef,omitempty"`

	// configMapRef names the key of a ConfigMap that holds them.
	// +optional
	ConfigMapRef *CertificateKeyReference `json:"configMapRef,omitempty"`
}

// ObjectReference names a Secret or ConfigMap.
type ObjectReference struct {
	// name of the object.
	// +required
	Name string `json:"name"`

	// namespace of the object.
	// +required
	Namespace string `json:"namespace"`
}

// CertificateKeyReference names a key of a Secret or ConfigMap.
type CertificateKeyReference struct {
	ObjectReference `json:",inline"`

	// key in the data of the object.
	// +optional
	// +kubebuilder:default=ca.crt
	Key string `json:"key,omitempty"`
}

// ClientTLS is a client certificate in a Secret.
type ClientTLS struct {
	// secretRef names the Secret.
	// +required
	SecretRef ObjectReference `json:"secretRef"`

	// certKey is the key of the certificate in the Secret, in PEM form.
	// +optional
	// +kubebuilder:default=tls.crt
	CertKey string `json:"certKey,omitempty"`

	// privateKeyKey is the key of the private key in the Secret, in PEM form.
	// +optional
	// +kubebuilder:default=tls.key
	PrivateKeyKey string `json:"privateKeyKey,omitempty"`
}

// Authorization is the value of an Authorization header.
type Authorization struct {
	// type is the scheme that precedes the token. Basic is what basicAuth is for.
	// +optional
	// +kubebuilder:default=Bearer
	Type string `json:"type,omitempty"`

	// secretRef names the key of a Secret that holds the token.
	// +required
	SecretRef TokenKeyReference `json:"secretRef"`
}

// TokenKeyReference names a key of a Secret.
type TokenKeyReference struct {
	ObjectReference `json:",inline"`

	// key in the data of the Secret.
	// +required
	Key string `json:"key"`
}

// BasicAuth is a user name and password in a Secret.
type BasicAuth struct {
	// secretRef names the Secret.
	// +required
	SecretRef ObjectReference `json:"secretRef"`

	// usernameKey is the key of the user name in the Secret.
	// +optional
	// +kubebuilder:default=username
	UsernameKey string `json:"usernameKey,omitempty"`

	// passwordKey is the key of the password in the Secret.
	// +optional
	// +kubebuilder:default=password
	PasswordKey string `json:"passwordKey,omitempty"`
}
