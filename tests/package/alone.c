/* The compiler is told to include one header before this line; a file without
 * any declaration would be an error of its own. */
typedef int alone;
