#include "server/web/queue_page.h"

#include "base/text/human_text.h"
#include "server/web/actions.h"
#include "server/web/job_table.h"
#include "server/web/templates/html_template.h"
#include "server/web/web_files.h"

namespace dotresize {
namespace {

using ctemplate::TemplateDictionary;

void add_tile(TemplateDictionary& page, const std::string& name, const std::string& value) {
  TemplateDictionary& tile = *page.AddSectionDictionary("TILE");
  set_text(tile, "NAME", name);
  set_text(tile, "VALUE", value);
}

/// Adds a tile with the use of a resource: "6 of 8", with a bar.
void add_use(TemplateDictionary& page, const std::string& name, int64_t used, int64_t capacity,
             std::string (*format)(int64_t)) {
  if (capacity == 0 && used == 0) return add_tile(page, name, "none");
  TemplateDictionary& tile = *page.AddSectionDictionary("TILE");
  set_text(tile, "NAME", name);
  set_text(tile, "VALUE", format(used) + " of " + format(capacity));
  TemplateDictionary& meter = *tile.AddSectionDictionary("METER");
  set_text(meter, "USED", std::to_string(used));
  set_text(meter, "MAX", std::to_string(capacity));
}

std::string launchers_of(const v1::ServerInfo& server) {
  std::vector<std::string> names;
  for (const int launcher : server.launchers()) {
    names.push_back(v1::Resources::Launcher_Name(static_cast<v1::Resources::Launcher>(launcher)));
  }
  return listed(names);
}

std::string count_text(int64_t count) { return std::to_string(count); }

void add_tiles(TemplateDictionary& page, const v1::ServerInfo& server) {
  const v1::ResourceAmounts& used = server.used();
  const v1::ResourceAmounts& capacity = server.capacity();
  add_tile(page, "Running", count_text(server.running_jobs()));
  add_tile(page, "Queued", count_text(server.queued_jobs()));
  add_use(page, "Ranks", used.ranks(), capacity.ranks(), count_text);
  add_use(page, "GPUs", used.gpus(), capacity.gpus(), count_text);
  add_use(page, "Memory", used.memory_bytes(), capacity.memory_bytes(), human_bytes);
  add_tile(page, "Launchers", launchers_of(server));
}

void add_warnings(TemplateDictionary& page, const QueuePageView& view) {
  std::vector<std::string> warnings = view.faults;
  if (view.server.drained()) {
    warnings.emplace_back("The server is drained: running jobs go on, queued ones wait.");
  } else if (!view.server.paused().empty()) {
    warnings.push_back(view.server.paused());
  }
  if (warnings.empty()) return;
  TemplateDictionary& section = *page.AddSectionDictionary("WARNINGS");
  for (const std::string& warning : warnings) {
    set_text(*section.AddSectionDictionary("WARNING"), "TEXT", warning);
  }
}

std::vector<PageAction> server_actions(const v1::ServerInfo& server) {
  if (server.drained()) {
    return {{"/server/resume", "Start jobs again", "Let jobs be started",
             "The server is drained. From now on it starts queued jobs again."}};
  }
  return {{"/server/drain", "Drain", "Drain the server",
           "No job is started from now on, also after a restart of the server. Running jobs go on, "
           "and new ones are queued."}};
}

}  // namespace

std::string queue_page_html(const QueuePageView& view, std::time_t now) {
  TemplateDictionary dictionary("queue");
  set_embedded(dictionary, "ACTIONS", actions_html(server_actions(view.server), view.form_token));
  add_warnings(dictionary, view);
  add_tiles(dictionary, view.server);
  const auto left = view.server.queued_jobs() - static_cast<int>(view.queued.size());
  JobTableView queued{"Queued", view.queued, "No job waits."};
  if (left > 0) {
    queued.all_state = "queued";
    queued.all_text = "and " + counted(left, "more job");
  }
  set_embedded(
      dictionary, "TABLES",
      job_table_html({"Running", view.launched, "No job runs."}, now) +
          job_table_html(queued, now) +
          job_table_html({"Ended", view.ended, "No job has ended yet.", "ended", "All ended jobs"},
                         now));
  return expand_template(queue_template(), "queue.html", dictionary);
}

}  // namespace dotresize
