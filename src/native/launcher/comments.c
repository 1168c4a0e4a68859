/* The checksum of a source without those comments that cannot change the preprocessor's output. The same comments are
   left out as in src/nvccache/files/comments.py, which gives the reasons. */

#include "launcher.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Whether the text is UTF-8, without surrogates and characters in more bytes than needed. */
static int is_utf8(const unsigned char *at, const unsigned char *end)
{
    while (at < end) {
        unsigned char lead = *at++, least = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
        unsigned char most = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;

        if (lead < 0x80)
            continue;
        if (lead < 0xc2 || lead > 0xf4)
            return 0;
        for (int more = 1 + (lead >= 0xe0) + (lead >= 0xf0); more; more--, least = 0x80, most = 0xbf)
            if (at == end || *at < least || *at++ > most)
                return 0;
    }
    return 1;
}

/* Whether blanks follow a backslash at the end of a line, which then continues, too. */
static int has_blank_after_backslash(const char *begin, const char *line_end)
{
    const char *last = line_end;

    while (last > begin && memchr(" \t\f\v\r", last[-1], 6)) /* or NUL, the sixth character */
        last--;
    return last < line_end && last > begin && last[-1] == '\\';
}

/* Whether the text may have a raw string, a trigraph or an unusual end of a line. A NUL follows the text. */
static int is_unclear(const char *text, const char *end)
{
    for (const char *at = text; at < end; at++) {
        const char *next = at + 1;

        if ((at[0] == '?' && next[0] == '?') || (at[0] == '\r' && next[0] != '\n') ||
            (at[0] == '\n' && has_blank_after_backslash(text, at)))
            return 1;
        while (at[0] == 'R' && next[0] == '\\' && next[1] == '\n')
            next += 2;
        if (at[0] == 'R' && next[0] == '"')
            return 1;
    }
    return 0;
}

static int contains(const char *begin, const char *end, const char *word)
{
    return begin < end && memmem(begin, (size_t)(end - begin), word, strlen(word)) != NULL;
}

/* Whether the part of a line behind the first of these marks contains `<`. */
static int names_file(const char *begin, const char *end, const char *mark)
{
    const char *found = memmem(begin, (size_t)(end - begin), mark, strlen(mark));

    return found && contains(found + strlen(mark), end, "<");
}

/* The end of a comment's last line; NULL if the comment must stay. */
static const char *end_of_comment(const char *text, const char *end, const char *comment, const char *line_end)
{
    const char *begin = comment, *close = line_end, *last, *rest;

    while (begin > text && begin[-1] != '\n')
        begin--;
    if (comment[1] == '*')
        close = memmem(comment + 2, (size_t)(end - comment - 2), "*/", 2);
    if (!close || names_file(begin, line_end, "#") || names_file(begin, line_end, "%:") ||
        contains(begin, comment, "\\") || contains(begin, comment, "\"") || contains(begin, comment, "'") ||
        contains(begin, close + 1, "\\\n") || contains(begin, close + 1, "*/") ||
        (begin - text > 1 && begin[-2] == '\\'))
        return NULL;
    last = memchr(close, '\n', (size_t)(end - close));
    for (rest = close + 2; rest < last; rest++)
        if (!strchr(" \t\r", *rest) || !*rest)
            return NULL;
    return last;
}

/* Whether a comment may silence or cause a warning. A newline follows it. */
static int may_affect_warnings(const char *comment, const char *end)
{
    static const char *const words[] = {"fall", "lint", "/*", "\\u", "\\n{", "\xd8", "\xe2", 0};

    for (const char *at = comment + 1; at < end; at++)
        for (const char *const *word = words; *word; word++)
            if (strncasecmp(at, *word, strlen(*word)) == 0)
                return 1;
    return 0;
}

static char *append(char *to, const char *begin, const char *end)
{
    memcpy(to, begin, (size_t)(end - begin));
    return to + (end - begin);
}

/* Append what stays of a comment: the newlines of a block, with its marks, so that it separates tokens as before. */
static char *append_rest(char *to, const char *comment, const char *end)
{
    to = append(to, comment, comment + 2);
    for (; comment < end; comment++)
        if (*comment == '\n')
            *to++ = '\n';
    return append(to, "*/", &"*/"[2]);
}

/* The byte behind the text is overwritten. Fails if memory is short. */
int sum_of_code(char *text, size_t size, unsigned char *sum)
{
    const char *end = text + size + 1, *copied = text, *at = text, *comment, *last;
    char *code = malloc(size + 1), *to = code, *part;

    if (!code)
        return 0;
    text[size] = '\0';
    if (!is_utf8((unsigned char *)text, (unsigned char *)text + size) || is_unclear(text, text + size))
        at = end;
    text[size] = '\n';
    while ((comment = memchr(at, '/', (size_t)(end - at)))) {
        at = comment + 1;
        if (*at != '/' && *at != '*')
            continue;
        at = memchr(comment, '\n', (size_t)(end - comment));
        last = end_of_comment(text, end, comment, at);
        at = last ? last : at;
        if (!last || may_affect_warnings(comment, last))
            continue;
        part = to;
        to = append(to, copied, comment);
        copied = last;
        if (comment[1] == '*')
            to = append_rest(to, comment, last);
        else
            while (to > part && (to[-1] == ' ' || to[-1] == '\t'))
                to--;
    }
    to = append(to, copied, end - 1);
    sum_of(code, (size_t)(to - code), sum);
    free(code);
    return 1;
}
