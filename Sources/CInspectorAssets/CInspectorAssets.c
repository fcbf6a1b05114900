#include "CInspectorAssets.h"

// In C, since the compiler of Swift takes two minutes for as many elements of an array.
#pragma clang diagnostic ignored "-Wc23-extensions"

static const uint8_t app_js[] = {
#embed "../AnabranchInspector/Assets/app.js"
};
static const uint8_t as_js[] = {
#embed "../AnabranchInspector/Assets/as.js"
};
static const uint8_t dom_js[] = {
#embed "../AnabranchInspector/Assets/dom.js"
};
static const uint8_t files_js[] = {
#embed "../AnabranchInspector/Assets/files.js"
};
static const uint8_t history_js[] = {
#embed "../AnabranchInspector/Assets/history.js"
};
static const uint8_t icon_svg[] = {
#embed "../AnabranchInspector/Assets/icon.svg"
};
static const uint8_t index_html[] = {
#embed "../AnabranchInspector/Assets/index.html"
};
static const uint8_t inspector_css[] = {
#embed "../AnabranchInspector/Assets/inspector.css"
};
static const uint8_t object_js[] = {
#embed "../AnabranchInspector/Assets/object.js"
};
static const uint8_t objects_js[] = {
#embed "../AnabranchInspector/Assets/objects.js"
};
static const uint8_t overview_js[] = {
#embed "../AnabranchInspector/Assets/overview.js"
};
static const uint8_t people_js[] = {
#embed "../AnabranchInspector/Assets/people.js"
};
static const uint8_t plot_js[] = {
#embed "../AnabranchInspector/Assets/plot.js"
};
static const uint8_t recording_js[] = {
#embed "../AnabranchInspector/Assets/recording.js"
};
static const uint8_t river_js[] = {
#embed "../AnabranchInspector/Assets/river.js"
};
static const uint8_t schema_js[] = {
#embed "../AnabranchInspector/Assets/schema.js"
};
static const uint8_t server_js[] = {
#embed "../AnabranchInspector/Assets/server.js"
};
static const uint8_t table_js[] = {
#embed "../AnabranchInspector/Assets/table.js"
};
static const uint8_t values_js[] = {
#embed "../AnabranchInspector/Assets/values.js"
};
static const uint8_t version_js[] = {
#embed "../AnabranchInspector/Assets/version.js"
};
static const uint8_t world_css[] = {
#embed "../AnabranchInspector/Assets/world.css"
};
static const uint8_t world_js[] = {
#embed "../AnabranchInspector/Assets/world.js"
};

#define ASSET(name, bytes) {name, bytes, sizeof(bytes)}

static const struct inspector_asset assets[] = {
    ASSET("app.js", app_js),
    ASSET("as.js", as_js),
    ASSET("dom.js", dom_js),
    ASSET("files.js", files_js),
    ASSET("history.js", history_js),
    ASSET("icon.svg", icon_svg),
    ASSET("index.html", index_html),
    ASSET("inspector.css", inspector_css),
    ASSET("object.js", object_js),
    ASSET("objects.js", objects_js),
    ASSET("overview.js", overview_js),
    ASSET("people.js", people_js),
    ASSET("plot.js", plot_js),
    ASSET("recording.js", recording_js),
    ASSET("river.js", river_js),
    ASSET("schema.js", schema_js),
    ASSET("server.js", server_js),
    ASSET("table.js", table_js),
    ASSET("values.js", values_js),
    ASSET("version.js", version_js),
    ASSET("world.css", world_css),
    ASSET("world.js", world_js),
    {NULL, NULL, 0},
};

const struct inspector_asset *anabranch_inspector_assets(void) { return assets; }
