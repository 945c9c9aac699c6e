//! Defines the metrics of a program in one table. Must never know what they count.

/// Defines a struct of metrics. Each line is one metric: the name of the field and of the metric, its
/// type, and its help text; `in seconds, VALUE` adds the unit, and VALUE is its empty histogram.
/// Metrics are registered in the order of the lines, and the running version after them.
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
            /// All metrics in the format of OpenMetrics.
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
