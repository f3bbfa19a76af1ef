//! Cluster and end-to-end tests of the whole product.
