//! Reading a registry+v1 bundle: files to a typed `RegistryV1`.
