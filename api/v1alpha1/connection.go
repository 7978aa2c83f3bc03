package v1alpha1

// EndpointConfig holds the connection settings for one host, for all webhooks behind it.
//
// +kubebuilder:validation:XValidation:rule="!has(self.authorization) || !has(self.basicAuth)",message="authorization and basicAuth are mutually exclusive"
type EndpointConfig struct {
	// host, or host:port, of the URL of a webhook. The case does not matter, and neither do :80 with
	// http and :443 with https. The host of a webhook given as a service is NAME.NAMESPACE.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=261
	Host string `json:"host"`

	ConnectionSettings `json:",inline"`
}

// ConnectionSettings secure a connection. A webhook with any of them ignores the EndpointConfig of its
// host. Setpoint watches the referenced Secrets and ConfigMaps, and uses a new certificate or token moments
// after it is stored.
type ConnectionSettings struct {
	// caBundle holds the CA certificates of the endpoint. The default is the CAs of the system.
	// +optional
	CABundle *CABundle `json:"caBundle,omitempty"`

	// clientTLS is the client certificate to present to the endpoint.
	// +optional
	ClientTLS *ClientTLS `json:"clientTLS,omitempty"`

	// authorization is a token to send. It excludes basicAuth.
	// +optional
	Authorization *Authorization `json:"authorization,omitempty"`

	// basicAuth is a user name and password to send. It excludes authorization.
	// +optional
	BasicAuth *BasicAuth `json:"basicAuth,omitempty"`
}

// CABundle holds or references certificates in PEM form, in exactly one of its fields.
//
// +kubebuilder:validation:XValidation:rule="[has(self.inline), has(self.secretRef), has(self.configMapRef)].filter(given, given).size() == 1",message="exactly one of inline, secretRef and configMapRef is required"
type CABundle struct {
	// inline holds the certificates themselves.
	// +optional
	// +kubebuilder:validation:MinLength=1
	Inline string `json:"inline,omitempty"`

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
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// namespace of the object.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace"`
}

// CertificateKeyReference names a key of a Secret or ConfigMap.
type CertificateKeyReference struct {
	ObjectReference `json:",inline"`

	// key in the data of the object. Default ca.crt.
	// +optional
	// +kubebuilder:default=ca.crt
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Key string `json:"key,omitempty"`
}

// ClientTLS is a client certificate in a Secret.
type ClientTLS struct {
	// secretRef names the Secret.
	// +required
	SecretRef ObjectReference `json:"secretRef"`

	// certKey is the key of the certificate in the Secret, in PEM form. Default tls.crt.
	// +optional
	// +kubebuilder:default=tls.crt
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	CertKey string `json:"certKey,omitempty"`

	// privateKeyKey is the key of the private key in the Secret, in PEM form. Default tls.key.
	// +optional
	// +kubebuilder:default=tls.key
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	PrivateKeyKey string `json:"privateKeyKey,omitempty"`
}

// Authorization is the value of an Authorization header.
type Authorization struct {
	// type is the scheme that precedes the token. Default Bearer. Basic is what basicAuth is for.
	// +optional
	// +kubebuilder:default=Bearer
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z0-9!#$%&*+.^_|~-]+$') && self.lowerAscii() != 'basic'",message="must be one word such as Bearer; use basicAuth for Basic"
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
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Key string `json:"key"`
}

// BasicAuth is a user name and password in a Secret.
type BasicAuth struct {
	// secretRef names the Secret.
	// +required
	SecretRef ObjectReference `json:"secretRef"`

	// usernameKey is the key of the user name in the Secret. Default username.
	// +optional
	// +kubebuilder:default=username
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	UsernameKey string `json:"usernameKey,omitempty"`

	// passwordKey is the key of the password in the Secret. Default password.
	// +optional
	// +kubebuilder:default=password
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	PasswordKey string `json:"passwordKey,omitempty"`
}
