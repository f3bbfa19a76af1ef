//! The closed list of problem codes.

macro_rules! codes {
    ($($(#[$doc:meta])* $variant:ident => $text:literal,)*) => {
        /// What kind of problem it is: a closed list, stable for scripts.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Code { $($(#[$doc])* $variant,)* }

        impl Code {
            /// Every code, for documentation and tests.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The stable name, in snake case.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text,)* }
            }
        }
    };
}

codes! {
    /// The text is not YAML.
    YamlSyntax => "yaml_syntax",
    /// The text is not UTF-8, or holds a NUL byte.
    NotText => "not_text",
    /// A file, a document or an expansion is larger than the loader takes.
    TooLarge => "too_large",
    /// Deeper nesting than the loader takes.
    TooDeep => "too_deep",
    /// A mapping names a key twice.
    DuplicateKey => "duplicate_key",
    /// A mapping key is not a plain text.
    InvalidKey => "invalid_key",
    /// An alias that names nothing, itself, or too much.
    InvalidAlias => "invalid_alias",
    /// The file holds nothing.
    EmptyDocument => "empty_document",
    /// A file that was named could not be read.
    FileNotFound => "file_not_found",
    /// A file lies outside of what the caller allows.
    FileForbidden => "file_forbidden",
    /// An env file has a line that is not an assignment.
    InvalidEnvFile => "invalid_env_file",
    /// A `$` that starts no known form.
    InvalidInterpolation => "invalid_interpolation",
    /// `${X:?…}` and X is not set.
    MissingVariable => "missing_variable",
    /// A variable without a default is not set; an empty text was used.
    UnsetVariable => "unset_variable",
    /// A key the schema does not know.
    UnknownKey => "unknown_key",
    /// A key that a mapping must have.
    MissingKey => "missing_key",
    /// A value of another type than the key takes.
    WrongType => "wrong_type",
    /// A value of the right type that means nothing.
    InvalidValue => "invalid_value",
    /// A list that must not repeat a value does.
    DuplicateValue => "duplicate_value",
    /// Two files declare the same thing differently.
    Conflict => "conflict",
    /// Files that include each other.
    IncludeCycle => "include_cycle",
    /// Services that extend each other.
    ExtendsCycle => "extends_cycle",
    /// A service that is not declared.
    UnknownService => "unknown_service",
    /// A network that is not declared.
    UnknownNetwork => "unknown_network",
    /// A volume that is not declared.
    UnknownVolume => "unknown_volume",
    /// A config that is not declared.
    UnknownConfig => "unknown_config",
    /// A secret that is not declared.
    UnknownSecret => "unknown_secret",
    /// A model that is not declared.
    UnknownModel => "unknown_model",
    /// `depends_on` names a service that does not exist.
    UnknownDependsOnService => "unknown_depends_on_service",
    /// `depends_on` goes round in a circle, or names its own service.
    InvalidDependsOn => "invalid_depends_on",
    /// A service has neither `image` nor `build`.
    MissingImage => "missing_image",
    /// A service must be built before it can run on a cluster.
    BuildUnsupported => "build_unsupported",
    /// A key that has no meaning across nodes.
    Unsupported => "unsupported",
    /// A key that is accepted and changes nothing.
    NoEffect => "no_effect",
    /// A key that is honoured in another way than on one host.
    HonouredDifferently => "honoured_differently",
    /// A key of an old compose version.
    LegacyComposeField => "legacy_compose_field",
    /// The project or deployment name cannot be used.
    InvalidName => "invalid_name",
    /// A rule of jaco.yaml is broken.
    ValidationFailed => "validation_failed",
    /// A resource bound that contradicts itself.
    InvalidManifest => "invalid_manifest",
    /// A reservation outside of the bounds.
    UnsupportedResourceConfiguration => "unsupported_resource_configuration",
    /// More replicas than pinned hosts.
    ReplicasExceedPinnedHosts => "replicas_exceed_pinned_hosts",
    /// One domain with TLS both on and off.
    RouteTlsMixed => "route_tls_mixed",
    /// A second catch-all route of a domain.
    RouteMultipleCatchall => "route_multiple_catchall",
    /// Two services publish the same host port.
    PortConflict => "port_conflict",
}
