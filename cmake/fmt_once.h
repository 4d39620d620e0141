// Part of the precompiled headers: libfmt has this function, so sources that format need no copies
// of all of fmt, a second of compiling each.
#pragma once

#include <fmt/format.h>

#if FMT_VERSION < 100000  // later versions declare it themselves
extern template void fmt::detail::vformat_to<char>(
    fmt::detail::buffer<char>&, fmt::basic_string_view<char>,
    fmt::basic_format_args<fmt::buffer_context<char>>, fmt::detail::locale_ref);
#endif
