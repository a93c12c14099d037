/* Stands in where the package of the kernel's headers leaves the DRM ones out: KFD's needs only the types. */
#include <linux/types.h>
