#include "cmake/json_once.h"

template class nlohmann::basic_json<>;
DOTRESIZE_JSON_READERS_AND_WRITERS(, nlohmann::json);
DOTRESIZE_JSON_READERS_AND_WRITERS(, nlohmann::ordered_json);
