/* What pages and drawings of the tools have in common. Names come from others,
 * and whatever they hold, they must stay text. */
#ifndef SIMBA_TOOLS_MARKUP_H
#define SIMBA_TOOLS_MARKUP_H

#include <stdio.h>

/** Text of HTML or XML, or of an attribute in quotes; what XML does not allow
 * becomes U+FFFD. */
void simba__markup_escape(FILE *file, const char *text);

/** A <text> of SVG. */
void simba__markup_text(FILE *file, double x, double y, const char *text);

/** How far marks of an axis are apart, 1, 2, 5, 10, … millionths, so that at
 * most so many fit into its span. */
double simba__markup_step(double span, double most);

#endif
