// Part of the sanitized precompiled header: json_once.cpp has what JSON is made of, so sources that
// use it need no copies, a fifth of the time in which they are compiled.
#pragma once

#include <nlohmann/json.hpp>

#define DOTRESIZE_JSON_INPUT nlohmann::detail::iterator_input_adapter<std::string::const_iterator>
#define DOTRESIZE_JSON_READERS_AND_WRITERS(KEYWORD, JSON)                      \
  KEYWORD template class nlohmann::detail::serializer<JSON>;                   \
  KEYWORD template class nlohmann::detail::json_sax_dom_parser<JSON>;          \
  KEYWORD template class nlohmann::detail::json_sax_dom_callback_parser<JSON>; \
  KEYWORD template class nlohmann::detail::lexer<JSON, DOTRESIZE_JSON_INPUT>;  \
  KEYWORD template class nlohmann::detail::parser<JSON, DOTRESIZE_JSON_INPUT>

extern template class nlohmann::basic_json<>;
DOTRESIZE_JSON_READERS_AND_WRITERS(extern, nlohmann::json);
DOTRESIZE_JSON_READERS_AND_WRITERS(extern, nlohmann::ordered_json);
