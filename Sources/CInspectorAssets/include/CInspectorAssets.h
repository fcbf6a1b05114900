#ifndef CINSPECTORASSETS_H
#define CINSPECTORASSETS_H

#include <stddef.h>
#include <stdint.h>

/// A file of `Sources/AnabranchInspector/Assets`, as it was when this was compiled.
struct inspector_asset {
    const char *name;
    const uint8_t *bytes;
    size_t count;
};

/// The first of the files, which follow each other; the one after the last has no name.
const struct inspector_asset *anabranch_inspector_assets(void);

#endif
