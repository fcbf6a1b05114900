#if __has_include(<sys/xattr.h>)
#include <sys/xattr.h>
#endif
