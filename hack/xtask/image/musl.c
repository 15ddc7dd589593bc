/* Linked into the static programs: where musl says which version it is, for `make image` to read. */
extern const char __libc_version[];
__attribute__((used, retain, section(".olm.musl"))) static const char *const version = __libc_version;
