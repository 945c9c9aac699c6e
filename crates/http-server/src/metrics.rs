//! Defines the metrics of a program in one table. Must never know what they count.

/// Defines a struct with a field for each metric, which has its name and its meaning. They are
/// registered in this order, and the running version after them.
#[macro_export]
macro_rules! metrics {
    (
        $(#[$about:meta])*
        $name:ident of $prefix:literal:
        $($metric:ident: $kind:ty = $meaning:literal $(in seconds, $new:expr)?;)+
    ) => {
        $(#[$about])*
        #[derive(Debug)]
        pub(super) struct $name {
            registry: ::prometheus_client::registry::Registry,
            $($metric: $kind,)+
        }

        impl Default for $name {
            fn default() -> $name {
                let mut registry = ::prometheus_client::registry::Registry::with_prefix($prefix);
                $(
                    let $metric: $kind = $crate::metrics!(@new $($new)?);
                    $crate::metrics!(@register registry, $metric, $meaning $(, $new)?);
                )+
                let version = vec![("version", env!("CARGO_PKG_VERSION"))];
                let version = ::prometheus_client::metrics::info::Info::new(version);
                registry.register("build", "The running version", version);
                $name { registry, $($metric,)+ }
            }
        }

        impl $name {
            /// In the format of OpenMetrics.
            pub(super) fn text(&self) -> String {
                let mut text = String::new();
                // Writing to a String does not fail.
                let _ = ::prometheus_client::encoding::text::encode(&mut text, &self.registry);
                text
            }
        }
    };
    (@new) => {
        Default::default()
    };
    (@new $new:expr) => {
        $new
    };
    (@register $registry:ident, $metric:ident, $meaning:literal) => {
        $registry.register(stringify!($metric), $meaning, $metric.clone())
    };
    (@register $registry:ident, $metric:ident, $meaning:literal, $new:expr) => {
        $registry.register_with_unit(
            stringify!($metric),
            $meaning,
            ::prometheus_client::registry::Unit::Seconds,
            $metric.clone(),
        )
    };
}
