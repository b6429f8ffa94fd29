#pragma once
// A page as a browser shows it.

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace rehearse::test {

/// A number on the page that says which number of the JSON it is.
struct ShownFigure {
  std::string path;   ///< "answer.step_time_s"
  std::string value;  ///< In full, as the page took it.
  std::string text;   ///< As the reader sees it: "20.72 s".
};

struct ShownPage {
  std::string complaints;         ///< What the browser's console said.
  int pictures = -1;              ///< Drawn; -1 where the script did not get to its end.
  int failed = 0;                 ///< Hosts of pictures that were not drawn.
  int unnamed = 0;                ///< Pictures without a sentence for those who do not see them.
  std::vector<std::string> tips;  ///< What each picture says of one of its marks, pointed at.
  std::string title;
  std::string text;  ///< Of the whole page.
  std::vector<ShownFigure> figures;
  std::vector<ShownFigure> derived;  ///< Numbers that the page works out; their path is empty.
  std::string data;                  ///< The JSON in the page.
};

/// Whether there is a browser to show pages.
[[nodiscard]] bool has_browser();
/// Pages, each in a window of 1400 by 2000 pixels, by one browser: starting it takes longer than showing a page. Throws
/// std::runtime_error where it shows nothing.
[[nodiscard]] std::vector<ShownPage> show(const std::vector<std::string>& files);

/// Whether `text` is `value` rounded to the digits shown, in the unit shown or, without one, in some unit of a column's
/// heading.
[[nodiscard]] bool says(const std::string& text, double value);

/// The number at "answer.rows.3.x" in `data`; throws where there is none.
[[nodiscard]] double number_at(const nlohmann::json& data, const std::string& path);

}  // namespace rehearse::test
